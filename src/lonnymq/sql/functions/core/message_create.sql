-- Queue one message. It is there when the caller's transaction commits.
-- Locks nothing: producers only append, so an open transaction delays nobody. With a dedupe key, or into a channel with a max_size, it goes
-- the way of message_create_many. Works in every isolation level.
-- Returns the message's id and 'created'; or 'duplicate' and the id that holds the key; or NULL and 'full'.
CREATE OR REPLACE FUNCTION message_create (
    p_channel TEXT,
    p_content BYTEA,
    p_dequeue_at BIGINT DEFAULT NULL,
    p_headers JSONB DEFAULT NULL,
    p_max_attempts INT DEFAULT NULL,
    p_dedupe_key TEXT DEFAULT NULL,
    OUT id BIGINT,
    OUT result TEXT
) LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    -- The xid before a limit is looked for: who sets one can then see who may not have found it.
    v_now BIGINT := CASE WHEN pg_current_xact_id() IS NOT NULL THEN transaction_ms() END;
    v_at BIGINT := COALESCE(p_dequeue_at, v_now);
BEGIN
    IF (p_channel <> '' AND octet_length(p_channel) <= 255 AND v_at BETWEEN -9007199254740992 AND 9007199254740992
        AND COALESCE(p_max_attempts BETWEEN 1 AND 1000000, TRUE)
        AND COALESCE(jsonb_typeof(p_headers) = 'object' AND pg_column_size(p_headers) < 8192, TRUE)) IS NOT TRUE
    THEN
        PERFORM message_check(p_channel, p_content, p_dequeue_at, p_headers, p_max_attempts, p_dedupe_key);
    END IF;
    -- What the queue asks for is checked by the statement that appends, and whether someone sleeps: it locks message first, and then takes its
    -- snapshot. See wake_await.
    INSERT INTO message (channel, dequeue_at, created_at, headers, max_attempts, content)
    SELECT p_channel, v_at, v_now, p_headers, p_max_attempts, p_content FROM (SELECT * FROM sleep s ORDER BY s.id DESC LIMIT 1) s
    WHERE octet_length(p_content) <= s.content_max_bytes AND p_dedupe_key IS NULL AND NOT s.is_asleep AND NOT s.is_special
    RETURNING message.id, 'created' INTO id, result;
    -- All that is rare, behind one condition.
    IF message_create.id IS NULL OR current_setting('transaction_isolation') <> 'read committed' THEN
        IF message_create.id IS NULL THEN
            PERFORM message_check(p_channel, p_content, p_dequeue_at, p_headers, p_max_attempts, p_dedupe_key);
            PERFORM produce_check(ARRAY[p_channel]);
            IF p_dedupe_key IS NOT NULL OR EXISTS (SELECT FROM channel c WHERE c.name = p_channel AND c.max_size IS NOT NULL) THEN
                SELECT m.id, m.result INTO id, result FROM message_create_many(
                    ARRAY[p_channel], ARRAY[p_content], ARRAY[p_dequeue_at], ARRAY[p_headers], ARRAY[p_max_attempts], ARRAY[p_dedupe_key]) m;
                RETURN;
            END IF;
            INSERT INTO message (channel, dequeue_at, created_at, headers, max_attempts, content)
            VALUES (p_channel, v_at, v_now, p_headers, p_max_attempts, p_content)
            RETURNING message.id, 'created' INTO id, result;
        END IF;
        PERFORM wake_notify(v_at);
    END IF;
    INSERT INTO wake (channel, lo_at, lo_id, hi_at, hi_id, n)
    VALUES (p_channel, v_at, message_create.id, v_at, message_create.id, 1);
END $$;
