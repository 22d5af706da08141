-- Create one message. It is there when the caller's transaction commits.
-- Locks nothing: producers only append, so an open transaction delays nobody. A dedupe key, a batch, a channel with a
-- max_size and a bound login take the longer way of messages_create. Works at every isolation level. Returns the
-- message's id and 'created'; 'duplicate' and the id of the message that has the key; or NULL and 'full'.
CREATE OR REPLACE FUNCTION message_create (
    p_channel TEXT,
    p_content BYTEA,
    p_dequeue_at BIGINT DEFAULT NULL,
    p_headers JSONB DEFAULT NULL,
    p_max_attempts INT DEFAULT NULL,
    p_dedupe_key TEXT DEFAULT NULL,
    p_delay_ms BIGINT DEFAULT NULL,         -- from now on; instead of p_dequeue_at
    p_priority INT DEFAULT NULL,            -- -100 to 100, higher first within its channel; 0 unless given
    p_cost INT DEFAULT NULL,                -- what it counts against its channel's share; 1 unless given
    p_lane TEXT DEFAULT NULL,               -- 'default' unless given
    p_unique_while TEXT DEFAULT NULL,       -- how long it holds its key: while 'waiting', or 'running', too
    p_unique_for_ms BIGINT DEFAULT NULL,    -- or while it waits or runs, and for this long after
    p_keep_result_ms BIGINT DEFAULT NULL,   -- how long its result is kept after it finished
    p_batch_id BIGINT DEFAULT NULL,         -- the batch that it belongs to
    OUT id BIGINT,
    OUT result TEXT
) LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    -- before it looks for a limit, so that whoever sets one can tell which transactions may have missed it
    v_xid XID8 := pg_current_xact_id();
    v_now BIGINT := transaction_ms();
    v_max INT;
    v_is_special BOOLEAN;
    v_is_asleep BOOLEAN;
BEGIN
    SELECT s.content_max_bytes, s.is_special INTO v_max, v_is_special FROM sleep s ORDER BY s.id DESC LIMIT 1;
    -- Most messages have only a channel and content. Checking options takes time in each transaction.
    IF num_nonnulls(p_dequeue_at, p_headers, p_max_attempts, p_dedupe_key, p_delay_ms, p_priority, p_cost, p_lane,
        p_unique_while, p_unique_for_ms, p_keep_result_ms, p_batch_id) > 0
        OR (name_is_valid(p_channel) AND octet_length(p_content) <= v_max) IS NOT TRUE
    THEN
        IF message_check(ROW(p_channel, p_content, p_dequeue_at, p_headers, p_max_attempts, p_dedupe_key, p_delay_ms,
            p_priority, p_cost, p_lane, p_unique_while, p_unique_for_ms, p_keep_result_ms, p_batch_id)::new_message,
            v_max) AND p_lane IS NOT NULL
        THEN
            PERFORM lane_check(p_lane);
        END IF;
    END IF;
    IF v_is_special THEN                    -- or do only other channels have a max_size?
        v_is_special := (SELECT q.has_bound FROM queue q) OR channel_max_size(p_channel) IS NOT NULL;
    END IF;
    IF v_is_special OR p_dedupe_key IS NOT NULL OR p_batch_id IS NOT NULL THEN
        SELECT m.id, m.result INTO id, result FROM messages_create(ARRAY[ROW(p_channel, p_content, p_dequeue_at,
            p_headers, p_max_attempts, p_dedupe_key, p_delay_ms, p_priority, p_cost, p_lane, p_unique_while,
            p_unique_for_ms, p_keep_result_ms, p_batch_id)::new_message], FALSE) m;
        RETURN;
    END IF;
    INSERT INTO message (xid, dequeue_at, created_at, max_attempts, keep_result_ms, cost, priority, lane, channel,
        headers, content)
    VALUES (v_xid, COALESCE(p_dequeue_at, clock_ms() + p_delay_ms, v_now), v_now, p_max_attempts,
        NULLIF(p_keep_result_ms, 0), COALESCE(p_cost, 1), COALESCE(p_priority, 0), COALESCE(p_lane, 'default'),
        p_channel, p_headers, p_content)
    RETURNING message.id, 'created' INTO id, result;
    -- The snapshot of this statement is younger than the lock on message: see sleep_begin.
    INSERT INTO notice (xid, lo_id, hi_id, n) VALUES (v_xid, message_create.id, message_create.id, 1)
    RETURNING (SELECT s.is_asleep FROM sleep s ORDER BY s.id DESC LIMIT 1) INTO v_is_asleep;
    IF v_is_asleep OR current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM sleep_notify(COALESCE(p_dequeue_at, clock_ms() + p_delay_ms, v_now));
    END IF;
END $$;
