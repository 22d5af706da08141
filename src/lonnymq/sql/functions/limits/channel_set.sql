-- Change a channel's policy; NULL keeps a value. It applies from the commit on, also to messages that wait or run.
-- Locks the channel's policy, which only this function writes, and with p_max_size the channel's size. Returns the new
-- policy, as channel_get does.
CREATE OR REPLACE FUNCTION channel_set (
    p_channel TEXT,
    p_max_concurrency INT DEFAULT NULL,         -- 0 removes the limit
    p_release_interval_ms BIGINT DEFAULT NULL,  -- 0 removes the limit
    p_paused BOOLEAN DEFAULT NULL,
    p_max_size INT DEFAULT NULL,                -- 0 removes the limit
    p_weight NUMERIC DEFAULT NULL               -- its share: a channel with weight 2 gets twice as much as one with 1
) RETURNS SETOF channel_policy LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
BEGIN
    PERFORM unbound_check('channel_set');
    PERFORM channel_check(p_channel);
    IF p_max_concurrency NOT BETWEEN 0 AND 10000 THEN
        PERFORM refuse('LM007', format('a max_concurrency of %s is out of range', p_max_concurrency),
            'Allow 1 to 10,000 at once, or 0 for no limit; p_paused => TRUE stops a channel.');
    END IF;
    IF p_release_interval_ms NOT BETWEEN 0 AND 86400000 THEN
        PERFORM refuse('LM007', format('a release_interval_ms of %s is out of range', p_release_interval_ms),
            'Ask for 1 to 86,400,000 ms between releases (a day), or 0 for none.');
    END IF;
    IF p_max_size < 0 THEN
        PERFORM refuse('LM007', format('a max_size of %s is out of range', p_max_size),
            'Allow 1 message or more, or 0 for no limit.');
    END IF;
    IF p_weight NOT BETWEEN 0.001 AND 1000 THEN
        PERFORM refuse('LM007', format('a weight of %s is out of range', p_weight),
            'Give 0.001 to 1,000; 1 is the usual weight.');
    END IF;
    INSERT INTO channel AS c (name, max_concurrency, release_interval_ms, paused, max_size, weight)
    VALUES (
        p_channel, NULLIF(p_max_concurrency, 0), COALESCE(p_release_interval_ms, 0), COALESCE(p_paused, FALSE),
        NULLIF(p_max_size, 0), COALESCE(p_weight, 1))
    ON CONFLICT (name) DO UPDATE SET
        max_concurrency = CASE WHEN p_max_concurrency IS NULL THEN c.max_concurrency
            ELSE NULLIF(p_max_concurrency, 0) END,
        release_interval_ms = COALESCE(p_release_interval_ms, c.release_interval_ms),
        paused = COALESCE(p_paused, c.paused),
        max_size = CASE WHEN p_max_size IS NULL THEN c.max_size ELSE NULLIF(p_max_size, 0) END,
        weight = COALESCE(p_weight, c.weight);
    IF p_max_size > 0 THEN
        PERFORM capacity_open(p_channel, p_max_size);
    END IF;
    INSERT INTO policy_change (channel) VALUES (p_channel);
    INSERT INTO notice (channel) VALUES (p_channel);
    PERFORM sleep_notify();
    RETURN QUERY SELECT * FROM channel_policy_of(p_channel);
END $$;
