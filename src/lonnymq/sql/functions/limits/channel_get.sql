-- The policy of a channel. NULL, or an interval of 0, means no limit.
CREATE OR REPLACE FUNCTION channel_get (p_channel TEXT)
RETURNS SETOF channel_policy LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM channel_check(p_channel);
    PERFORM observe_check(p_channel);
    RETURN QUERY SELECT * FROM channel_policy_of(p_channel);
END $$;
