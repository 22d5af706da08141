-- Check and create messages that may have dedupe keys, batches, channels with a max_size, or a login that is bound to
-- channels. Locks batches (see batch_join), then sizes and keys in their order (see message_admit), so that two calls
-- never deadlock. Returns (id, result) per message, in the order given, as message_create does. With p_raise_full, a
-- full channel is an error (LM017), and nothing is created.
CREATE OR REPLACE FUNCTION messages_create (p_messages new_message[], p_raise_full BOOLEAN)
RETURNS TABLE (id BIGINT, result TEXT) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_now BIGINT := transaction_ms();
    v_clock BIGINT := clock_ms();
    v_count INT := cardinality(p_messages);
    v_max INT := (SELECT q.content_max_bytes FROM queue q);
    v_sequence REGCLASS := pg_get_serial_sequence('message', 'id');
    v_channels TEXT[];
    v_keys TEXT[];
    v_batches BIGINT[];
    v_unique_fors BIGINT[];                 -- see dedupe.unique_for_ms
    v_ids BIGINT[];
    v_full TEXT;                            -- the first channel that is full
    a RECORD;
BEGIN
    IF v_count = 0 THEN
        RETURN;
    END IF;
    SELECT array_agg((m).channel), array_agg((m).dedupe_key), array_agg(nextval(v_sequence)),
        array_agg(COALESCE((m).unique_for_ms, CASE (m).unique_while WHEN 'running' THEN 0 END)),
        array_agg(DISTINCT (m).batch_id) FILTER (WHERE (m).batch_id IS NOT NULL)
    INTO v_channels, v_keys, v_ids, v_unique_fors, v_batches FROM (SELECT unnest(p_messages) AS m OFFSET 0) u;
    IF (SELECT q.has_bound FROM queue q) THEN
        PERFORM produce_check(v_channels);
    END IF;
    PERFORM FROM (SELECT unnest(p_messages) AS m, generate_series(1, v_count) AS ord OFFSET 0) u
    WHERE NOT message_check(m, v_max, format(' (message %s of %s)', ord, v_count));
    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') AND EXISTS (
        SELECT FROM unnest(v_keys, v_unique_fors) u (key, unique_for) WHERE u.key IS NOT NULL AND u.unique_for IS NULL)
    THEN
        PERFORM refuse('LM009', format('at isolation level %s, a create cannot see whether the message with its dedupe '
            || 'key still waits', upper(current_setting('transaction_isolation'))),
            'Give p_unique_while => ''running'' or p_unique_for_ms, or create it in a READ COMMITTED transaction.');
    END IF;
    IF v_batches IS NOT NULL THEN
        PERFORM batch_join(v_batches);
    END IF;
    SELECT * INTO a FROM message_admit(v_channels, v_keys, v_ids, v_unique_fors);
    IF p_raise_full AND 'full' = ANY (a.results) THEN
        v_full := v_channels[array_position(a.results, 'full')];
        PERFORM refuse('LM017',
            format('channel %s is full (max_size %s): %s of %s messages do not fit into their channels',
                quote_literal(v_full), channel_max_size(v_full),
                cardinality(array_positions(a.results, 'full')), v_count),
            'Wait until there is room, raise max_size, or ask for messages that do not fit to be left out.');
    END IF;
    RETURN QUERY
    WITH given AS MATERIALIZED (
        SELECT unnest(p_messages) AS m, unnest(v_ids) AS id, unnest(a.results) AS result, unnest(a.holders) AS holder,
            unnest(a.are_counted) AS is_counted, generate_series(1, v_count) AS ord),
    made AS MATERIALIZED (
        INSERT INTO message OVERRIDING SYSTEM VALUE
        SELECT r.* FROM given g
        CROSS JOIN LATERAL message_new(g.m, g.id, pg_current_xact_id(), v_now, v_clock, g.is_counted) r
        WHERE g.result = 'created' ORDER BY g.ord
        RETURNING message.id, message.batch_id),
    joined AS (
        INSERT INTO batch_part (batch_id, n, lo_id, hi_id)
        SELECT made.batch_id, COUNT(*), MIN(made.id), MAX(made.id) FROM made WHERE made.batch_id IS NOT NULL
        GROUP BY made.batch_id),
    noticed AS (
        INSERT INTO notice (lo_id, hi_id, n) SELECT MIN(made.id), MAX(made.id), COUNT(*) FROM made HAVING COUNT(*) > 0)
    SELECT CASE g.result WHEN 'created' THEN g.id WHEN 'duplicate' THEN g.holder END, g.result FROM given g
    ORDER BY g.ord;
    PERFORM sleep_notify((
        SELECT MIN(COALESCE((m).dequeue_at, v_clock + (m).delay_ms, v_now))
        FROM (SELECT unnest(p_messages) AS m OFFSET 0) u));
END $$;
