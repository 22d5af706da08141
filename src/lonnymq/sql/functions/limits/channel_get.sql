-- The policy that applies to a channel: see channel_policy.
CREATE OR REPLACE FUNCTION channel_get (p_channel TEXT)
RETURNS SETOF channel_policy LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM channel_check(p_channel);
    PERFORM observe_check(p_channel);
    RETURN QUERY SELECT * FROM channel_policy_of(p_channel);
END $$;
