-- Change a channel's policy; NULL keeps a value. It applies from the commit on, also to messages that wait or run. A
-- limit of 0 means no limit, even if the queue has one for channels. p_inherit names the limits that the channel has
-- from the queue again: max_concurrency, release_interval_us, burst, max_size.
-- Locks the channel's policy, and with a max_size the channel's size. Returns the new policy, as channel_get does.
CREATE OR REPLACE FUNCTION channel_set (
    p_channel TEXT,
    p_max_concurrency INT DEFAULT NULL,
    p_release_interval_us BIGINT DEFAULT NULL,  -- the rate: one message per this many microseconds,
    p_burst INT DEFAULT NULL,                   -- and up to this many at once after a pause
    p_paused BOOLEAN DEFAULT NULL,
    p_max_size INT DEFAULT NULL,
    p_weight NUMERIC DEFAULT NULL,              -- its share: a channel with weight 2 gets twice as much as one with 1
    p_inherit TEXT[] DEFAULT NULL
) RETURNS SETOF channel_policy LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    v_inherit TEXT[] := COALESCE(p_inherit, '{}');
    v_max_size INT;
BEGIN
    PERFORM unbound_check('channel_set');
    PERFORM channel_check(p_channel);
    PERFORM limits_check('LM007', '', p_max_concurrency, p_release_interval_us, p_burst, p_max_size);
    PERFORM inherit_check(v_inherit, p_max_concurrency, p_release_interval_us, p_burst, p_max_size);
    IF p_weight NOT BETWEEN 0.001 AND 1000 THEN
        PERFORM refuse('LM007', format('a weight of %s is out of range', p_weight),
            'Give 0.001 to 1,000; 1 is the usual weight.');
    END IF;
    -- Above READ COMMITTED, this fails with 40001 if the policy was deleted after the snapshot, which still sees it.
    PERFORM FROM channel c WHERE c.name = p_channel FOR NO KEY UPDATE;
    INSERT INTO channel AS c (name, max_concurrency, release_interval_us, burst, paused, max_size, weight)
    VALUES (
        p_channel, p_max_concurrency, p_release_interval_us, p_burst, COALESCE(p_paused, FALSE), p_max_size,
        COALESCE(p_weight, 1))
    ON CONFLICT (name) DO UPDATE SET
        max_concurrency = CASE WHEN 'max_concurrency' <> ALL (v_inherit)
            THEN COALESCE(p_max_concurrency, c.max_concurrency) END,
        release_interval_us = CASE WHEN 'release_interval_us' <> ALL (v_inherit)
            THEN COALESCE(p_release_interval_us, c.release_interval_us) END,
        burst = CASE WHEN 'burst' <> ALL (v_inherit) THEN COALESCE(p_burst, c.burst) END,
        paused = COALESCE(p_paused, c.paused),
        max_size = CASE WHEN 'max_size' <> ALL (v_inherit) THEN COALESCE(p_max_size, c.max_size) END,
        weight = COALESCE(p_weight, c.weight);
    IF p_max_size > 0 OR 'max_size' = ANY (v_inherit) THEN
        v_max_size := channel_max_size(p_channel);
    END IF;
    IF v_max_size IS NOT NULL THEN
        PERFORM capacity_open(p_channel, v_max_size);
    END IF;
    PERFORM policy_log_write(p_channel);
    INSERT INTO policy_change (channel) VALUES (p_channel);
    INSERT INTO notice (channel) VALUES (p_channel);
    PERFORM sleep_notify();
    RETURN QUERY SELECT * FROM channel_policy_of(p_channel);
END $$;
