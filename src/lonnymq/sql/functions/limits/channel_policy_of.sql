-- The policy of a channel. A channel that nobody set a policy for has no limits, and weight 1.
CREATE OR REPLACE FUNCTION channel_policy_of (p_channel TEXT)
RETURNS SETOF channel_policy LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT p_channel, c.max_concurrency, COALESCE(c.release_interval_ms, 0), COALESCE(c.paused, FALSE), c.max_size,
        COALESCE(c.weight, 1)
    FROM (VALUES (1)) v LEFT JOIN channel c ON c.name = p_channel;
END;
