-- The policy of a channel; one without a policy of its own has no limits, and the weight 1. NULL: no limit.
CREATE OR REPLACE FUNCTION channel_get (p_channel TEXT)
RETURNS TABLE (
    channel TEXT, max_concurrency INT, release_interval_ms BIGINT, paused BOOLEAN, max_size INT, weight NUMERIC)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
BEGIN
    PERFORM channel_check(p_channel);
    PERFORM observe_check(p_channel);
    RETURN QUERY
    SELECT p_channel, c.max_concurrency, COALESCE(c.release_interval_ms, 0), COALESCE(c.paused, FALSE), c.max_size,
        COALESCE(c.weight, 1)
    FROM (VALUES (p_channel)) v (name) LEFT JOIN channel c ON c.name = v.name;
END $$;
