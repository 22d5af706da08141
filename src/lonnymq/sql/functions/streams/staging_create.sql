-- Create messages from the rows that the caller's login role has staged under some batches, in the order of the batches
-- and their rows, and delete the rows. A full channel is an error (LM017), unless p_drop_full: then its rows are
-- deleted too, and counted as refused. With dedupe keys, or if channels have a max_size, all messages are created in
-- one call of messages_create, so that their locks are taken in order. Without them nothing is locked, and the messages
-- are copied in parts.
CREATE OR REPLACE FUNCTION staging_create (p_batches UUID[], p_drop_full BOOLEAN, OUT created BIGINT,
    OUT duplicates BIGINT, OUT refused BIGINT)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    c_most CONSTANT INT := 100000;          -- whose locks are taken at once
    c_from CONSTANT BIGINT := -9223372036854775808;
    -- before it looks for a limit, so that whoever sets one can tell which transactions may have missed it
    v_xid XID8 := pg_current_xact_id();
    v_now BIGINT := transaction_ms();
    v_max INT := (SELECT q.content_max_bytes FROM queue q);
    v_login REGROLE := quote_ident(session_user)::REGROLE;
    v_messages new_message[];
    v_batch UUID;
    v_from BIGINT;
    s RECORD;
BEGIN
    IF (SELECT q.has_sizes FROM queue q) OR EXISTS (
        SELECT FROM unnest(p_batches) b (batch)
        CROSS JOIN LATERAL (
            SELECT FROM staging x WHERE x.batch = b.batch AND x.staged_by = v_login
                AND x.dedupe_key IS NOT NULL LIMIT 1) x)
    THEN
        v_messages := ARRAY(SELECT t.message FROM staging_take(p_batches, c_from, c_most + 1, 512 << 20) t);
        IF cardinality(v_messages) > c_most
            OR (SELECT SUM(COALESCE(octet_length(m.content), 0) + COALESCE(pg_column_size(m.headers), 0))
                FROM unnest(v_messages) m) > 512 << 20
        THEN
            PERFORM refuse('LM005', 'the batch holds more than 100,000 messages, or 512 MiB',
                'With dedupe keys or a max_size, publish at most 100,000 and 512 MiB at once.');
        END IF;
        PERFORM lanes_check(ARRAY(SELECT m.lane FROM unnest(v_messages) m));
        SELECT COUNT(*) FILTER (WHERE m.result = 'created'), COUNT(*) FILTER (WHERE m.result = 'duplicate'),
            COUNT(*) FILTER (WHERE m.result = 'full')
        INTO created, duplicates, refused FROM messages_create(v_messages, NOT p_drop_full) m;
        RETURN;
    END IF;
    created := 0;
    duplicates := 0;
    refused := 0;
    FOREACH v_batch IN ARRAY p_batches LOOP
        v_from := c_from;
        LOOP
            -- Continue at the last row: the rows before it are deleted, and reading their dead versions takes time.
            WITH taken AS MATERIALIZED (
                SELECT t.ord, t.message, nextval('message_id_seq') AS id
                FROM staging_take(ARRAY[v_batch], v_from, 10000, 64 << 20) t),
            made AS (
                INSERT INTO message OVERRIDING SYSTEM VALUE
                SELECT r.* FROM taken t
                CROSS JOIN LATERAL message_new(t.message, t.id, v_xid, v_now, v_now, FALSE) r
                WHERE message_check(t.message, v_max, format(' (the row with ord %s)', t.ord))
                RETURNING message.id, message.channel, message.lane, message.dequeue_at, message.dedupe_key,
                    message.batch_id),
            joined AS (
                INSERT INTO batch_part (batch_id, n, lo_id, hi_id)
                SELECT m.batch_id, COUNT(*), MIN(m.id), MAX(m.id) FROM made m WHERE m.batch_id IS NOT NULL
                GROUP BY m.batch_id),
            noticed AS (
                INSERT INTO notice (xid, lo_id, hi_id, n)
                SELECT v_xid, MIN(t.id), MAX(t.id), COUNT(*) FROM taken t HAVING COUNT(*) > 0)
            SELECT COUNT(*) AS n, (SELECT MAX(t.ord) FROM taken t) AS last, MIN(m.dequeue_at) AS first_at,
                array_agg(DISTINCT m.channel) AS channels, array_agg(DISTINCT m.lane) AS lanes,
                array_agg(DISTINCT m.batch_id) FILTER (WHERE m.batch_id IS NOT NULL) AS batch_ids,
                COUNT(m.dedupe_key) > 0 AS has_keys
            INTO s FROM made m;
            EXIT WHEN s.n = 0;
            IF s.has_keys THEN
                PERFORM refuse('40001', 'rows with dedupe keys were staged while the batch was published',
                    'Run the transaction again.');
            END IF;
            IF s.batch_ids IS NOT NULL THEN
                PERFORM batch_join(s.batch_ids);
            END IF;
            PERFORM lanes_check(s.lanes);
            PERFORM produce_check(s.channels);
            PERFORM sleep_notify(s.first_at);
            created := created + s.n;
            v_from := s.last;
        END LOOP;
    END LOOP;
END $$;
