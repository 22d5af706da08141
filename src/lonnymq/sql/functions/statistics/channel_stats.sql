-- The statistics of a channel: how many messages wait, are leased, are dead and were served, how old the oldest due
-- message is, and why the next one is not served now. due is exact; scheduled and dead are counted up to p_cap each, so
-- a count of p_cap means at least p_cap. See channel_stats_of.
CREATE OR REPLACE FUNCTION channel_stats (p_channel TEXT, p_cap INT DEFAULT 10000)
RETURNS SETOF channel_statistics LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM channel_check(p_channel);
    PERFORM limit_check(p_cap, 1000000);
    PERFORM observe_check(p_channel);
    RETURN QUERY SELECT * FROM channel_stats_of(ARRAY[p_channel], p_cap);
END $$;
