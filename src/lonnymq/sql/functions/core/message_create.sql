-- Queue one message. It is there when the caller's transaction commits.
-- Locks nothing: producers only append, so an open transaction delays nobody. With a dedupe key, or into a channel with
-- a max_size, it goes the way of message_create_many. Works in every isolation level.
-- Returns the message's id and 'created'; or 'duplicate' and the id that holds the key; or NULL and 'full'.
CREATE OR REPLACE FUNCTION message_create (
    p_channel TEXT,
    p_content BYTEA,
    p_dequeue_at BIGINT DEFAULT NULL,
    p_headers JSONB DEFAULT NULL,
    p_max_attempts INT DEFAULT NULL,
    p_dedupe_key TEXT DEFAULT NULL,
    p_delay_ms BIGINT DEFAULT NULL,         -- from now on; instead of p_dequeue_at
    p_priority INT DEFAULT NULL,            -- -100 to 100, higher first within its channel; 0 unless told
    p_cost INT DEFAULT NULL,                -- what it counts against its channel's share; 1 unless told
    p_lane TEXT DEFAULT NULL,               -- 'default' unless told
    OUT id BIGINT,
    OUT result TEXT
) LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    -- before a limit is looked for: who sets one can see who may not have found it
    v_xid XID8 := pg_current_xact_id();
    v_now BIGINT := transaction_ms();
    v_at BIGINT := v_now;
    v_max INT;
    v_is_special BOOLEAN;
    v_is_asleep BOOLEAN;
BEGIN
    -- Most have a channel and content alone. What is asked of the others costs time to prepare, in each transaction.
    IF num_nulls(p_dequeue_at, p_headers, p_max_attempts, p_dedupe_key, p_delay_ms, p_priority, p_cost, p_lane) < 8
        OR (octet_length(p_channel) BETWEEN 1 AND 255) IS NOT TRUE
    THEN
        IF NOT message_is_usual(p_channel, '', p_dequeue_at, p_headers, p_max_attempts, p_dedupe_key, p_delay_ms,
            p_priority, p_cost, p_lane, 0)
        THEN
            PERFORM message_check(p_channel, p_content, p_dequeue_at, p_headers, p_max_attempts, p_dedupe_key,
                p_delay_ms, p_priority, p_cost, p_lane);
        END IF;
        IF p_delay_ms IS NOT NULL THEN
            v_at := clock_ms() + p_delay_ms;
        ELSIF p_dequeue_at IS NOT NULL THEN
            v_at := p_dequeue_at;
        END IF;
    END IF;
    -- What the queue asks for is checked before message is locked; whether someone sleeps, after that.
    SELECT s.content_max_bytes, s.is_special INTO v_max, v_is_special FROM sleep s ORDER BY s.id DESC LIMIT 1;
    IF octet_length(p_content) <= v_max AND NOT v_is_special AND p_dedupe_key IS NULL THEN
        INSERT INTO message (xid, dequeue_at, created_at, max_attempts, cost, priority, lane, channel, headers, content)
        VALUES (v_xid, v_at, v_now, p_max_attempts, COALESCE(p_cost, 1), COALESCE(p_priority, 0),
            COALESCE(p_lane, 'default'), p_channel, p_headers, p_content)
        RETURNING message.id, 'created' INTO id, result;
        -- The snapshot of this statement is younger than the lock: see sleep_begin.
        INSERT INTO notice (xid, lo_id, hi_id, n) VALUES (v_xid, message_create.id, message_create.id, 1)
        RETURNING (SELECT s.is_asleep FROM sleep s ORDER BY s.id DESC LIMIT 1) INTO v_is_asleep;
        IF v_is_asleep OR current_setting('transaction_isolation') <> 'read committed' THEN
            PERFORM sleep_notify(v_at);
        END IF;
    ELSE                                    -- there is more to look at than that
        SELECT m.id, m.result INTO id, result FROM message_create_many(
            ARRAY[p_channel], ARRAY[p_content], ARRAY[p_dequeue_at], ARRAY[p_headers], ARRAY[p_max_attempts],
            ARRAY[p_dedupe_key], FALSE, ARRAY[p_delay_ms], ARRAY[p_priority], ARRAY[p_cost], ARRAY[p_lane]) m;
    END IF;
END $$;
