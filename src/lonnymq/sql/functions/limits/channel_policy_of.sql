-- The policy that applies to a channel: its own values, and what it inherits from the queue.
CREATE OR REPLACE FUNCTION channel_policy_of (p_channel TEXT)
RETURNS SETOF channel_policy LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT p_channel, p.max_concurrency, p.interval_us, p.burst, p.paused, p.max_size, p.weight, p.inherited
    FROM channel_limits(p_channel) p;
END;
