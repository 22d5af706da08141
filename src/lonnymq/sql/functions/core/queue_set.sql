-- Change the queue's settings; what is omitted keeps its value. They hold from the commit on. Returns what queue_get
-- does.
CREATE OR REPLACE FUNCTION queue_set (
    p_content_max_bytes INT DEFAULT NULL,
    p_lease_max_ms BIGINT DEFAULT NULL,
    p_max_attempts INT DEFAULT NULL,
    p_lease_ms BIGINT DEFAULT NULL,             -- of a dequeue that names none
    p_max_concurrency INT DEFAULT NULL,         -- over all channels; 0 lifts the limit
    p_paused BOOLEAN DEFAULT NULL,
    p_history BOOLEAN DEFAULT NULL,
    p_history_content BOOLEAN DEFAULT NULL,
    p_history_keep_ms BIGINT DEFAULT NULL,      -- 0: for ever
    p_notify BOOLEAN DEFAULT NULL,
    -- The limits of channels that do not set their own, as in channel_set; 0 lifts one.
    p_channel_max_concurrency INT DEFAULT NULL,
    p_channel_release_interval_us BIGINT DEFAULT NULL,
    p_channel_burst INT DEFAULT NULL,
    p_channel_max_size INT DEFAULT NULL,
    p_batch_keep_ms BIGINT DEFAULT NULL,        -- after a batch is finished; 0: for ever
    p_audit_keep_ms BIGINT DEFAULT NULL         -- 0: for ever
) RETURNS TABLE (
    content_max_bytes INT, lease_ms BIGINT, lease_max_ms BIGINT, max_attempts INT, max_concurrency INT,
    paused BOOLEAN,
    history BOOLEAN, history_content BOOLEAN, history_keep_ms BIGINT, batch_keep_ms BIGINT,
    audit_keep_ms BIGINT, notify BOOLEAN,
    channel_max_concurrency INT, channel_release_interval_us BIGINT, channel_burst INT, channel_max_size INT,
    notify_channel TEXT)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    q queue;
    v_is_default BOOLEAN;
BEGIN
    PERFORM unbound_check('queue_set');
    SELECT * INTO q FROM queue FOR UPDATE;
    PERFORM limits_check('LM011', 'channel_', p_channel_max_concurrency, p_channel_release_interval_us, p_channel_burst,
        p_channel_max_size);
    IF p_content_max_bytes NOT BETWEEN 1 AND 268435456 THEN
        PERFORM refuse('LM011', format('a content limit of %s bytes is not possible', p_content_max_bytes),
            'Allow 1 byte to 256 MiB.');
    ELSIF p_lease_max_ms NOT BETWEEN 1 AND 31536000000 THEN
        PERFORM refuse('LM011', format('a lease limit of %s ms is not possible', p_lease_max_ms),
            'Allow 1 to 31,536,000,000 ms (a year).');
    ELSIF p_max_attempts NOT BETWEEN 1 AND 1000000 THEN
        PERFORM refuse('LM011', format('max_attempts of %s is not possible', p_max_attempts),
            'Allow 1 to 1,000,000 attempts.');
    ELSIF p_max_concurrency NOT BETWEEN 0 AND 10000 THEN
        PERFORM refuse('LM011', format('a max_concurrency of %s is not possible', p_max_concurrency),
            'Allow 1 to 10,000 at once, or 0 for no limit; p_paused => TRUE stops the queue.');
    ELSIF p_history_keep_ms NOT BETWEEN 0 AND 3153600000000 OR p_history_keep_ms BETWEEN 1 AND 3599999 THEN
        PERFORM refuse('LM011', format('keeping history for %s ms is not possible', p_history_keep_ms),
            'Keep it for 3,600,000 (an hour) to 3,153,600,000,000 ms (a hundred years), or 0 for ever.');
    ELSIF p_batch_keep_ms NOT BETWEEN 0 AND 3153600000000 OR p_batch_keep_ms BETWEEN 1 AND 3599999 THEN
        PERFORM refuse('LM011', format('keeping finished batches for %s ms is not possible', p_batch_keep_ms),
            'Keep them for 3,600,000 (an hour) to 3,153,600,000,000 ms (a hundred years), or 0 for ever.');
    ELSIF p_audit_keep_ms NOT BETWEEN 0 AND 3153600000000 OR p_audit_keep_ms BETWEEN 1 AND 3599999 THEN
        PERFORM refuse('LM011', format('keeping audit rows for %s ms is not possible', p_audit_keep_ms),
            'Keep them for 3,600,000 (an hour) to 3,153,600,000,000 ms (a hundred years), or 0 for ever.');
    ELSIF COALESCE(p_lease_ms, q.lease_ms) NOT BETWEEN 1 AND COALESCE(p_lease_max_ms, q.lease_max_ms) THEN
        PERFORM refuse('LM011', format('a default lease of %s ms is not possible', COALESCE(p_lease_ms, q.lease_ms)),
            format('Give 1 to %s ms (lease_max_ms).', COALESCE(p_lease_max_ms, q.lease_max_ms)));
    END IF;
    UPDATE queue SET
        content_max_bytes = COALESCE(p_content_max_bytes, q.content_max_bytes),
        lease_max_ms = COALESCE(p_lease_max_ms, q.lease_max_ms),
        max_attempts = COALESCE(p_max_attempts, q.max_attempts),
        lease_ms = COALESCE(p_lease_ms, q.lease_ms),
        max_concurrency = CASE WHEN p_max_concurrency IS NULL THEN q.max_concurrency
            ELSE NULLIF(p_max_concurrency, 0) END,
        paused = COALESCE(p_paused, q.paused),
        history = COALESCE(p_history, q.history),
        history_content = COALESCE(p_history_content, q.history_content),
        history_keep_ms = COALESCE(p_history_keep_ms, q.history_keep_ms),
        batch_keep_ms = COALESCE(p_batch_keep_ms, q.batch_keep_ms),
        audit_keep_ms = COALESCE(p_audit_keep_ms, q.audit_keep_ms),
        notify = COALESCE(p_notify, q.notify),
        channel_max_concurrency = NULLIF(COALESCE(p_channel_max_concurrency, q.channel_max_concurrency), 0),
        channel_release_interval_us = NULLIF(COALESCE(p_channel_release_interval_us, q.channel_release_interval_us), 0),
        channel_burst = COALESCE(p_channel_burst, q.channel_burst),
        channel_max_size = NULLIF(COALESCE(p_channel_max_size, q.channel_max_size), 0),
        sizes_turn = CASE WHEN p_channel_max_size IS NULL THEN q.sizes_turn ELSE nextval('turn') END,
        has_sizes = q.has_sizes OR COALESCE(p_channel_max_size > 0, FALSE);
    IF p_content_max_bytes IS NOT NULL OR p_channel_max_size IS NOT NULL THEN
        PERFORM sleep_copy_settings();
    END IF;
    IF p_history AND history_prepare(clock_ms()) > 0 THEN
        PERFORM lock_guard();               -- readers of the history wait for this
    END IF;
    PERFORM policy_log_write('');
    v_is_default := num_nonnulls(p_channel_max_concurrency, p_channel_release_interval_us, p_channel_burst) > 0;
    IF v_is_default OR p_max_concurrency IS NOT NULL OR p_paused IS NOT NULL THEN
        INSERT INTO policy_change (channel, is_default) VALUES ('', v_is_default);
        INSERT INTO notice (channel) VALUES ('');
        PERFORM sleep_notify();
    END IF;
    IF NOT p_notify THEN
        PERFORM sleep_end();
    END IF;
    RETURN QUERY SELECT * FROM queue_get();
END $$;
