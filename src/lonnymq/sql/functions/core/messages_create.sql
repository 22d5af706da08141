-- Check and create messages that may have dedupe keys, channels with a max_size, or a login that is bound to channels.
-- Locks sizes and keys in their order (see message_admit), so that two calls never deadlock. Returns (id, result) per
-- message, in the order given, as message_create does. With p_raise_full, a full channel is an error (LM017), and
-- nothing is created.
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
    v_ids BIGINT[];
    v_full TEXT;                            -- the first channel that is full
    a RECORD;
BEGIN
    SELECT array_agg((m).channel), array_agg((m).dedupe_key), array_agg(nextval(v_sequence))
    INTO v_channels, v_keys, v_ids FROM (SELECT unnest(p_messages) AS m OFFSET 0) u;
    IF (SELECT q.has_bound FROM queue q) THEN
        PERFORM produce_check(v_channels);
    END IF;
    PERFORM FROM (SELECT unnest(p_messages) AS m, generate_series(1, v_count) AS ord OFFSET 0) u
    WHERE NOT message_check(m, v_max, format(' (message %s of %s)', ord, v_count));
    SELECT * INTO a FROM message_admit(v_channels, v_keys, v_ids);
    IF p_raise_full AND 'full' = ANY (a.results) THEN
        v_full := v_channels[array_position(a.results, 'full')];
        PERFORM refuse('LM017',
            format('channel %s is full (max_size %s): %s of %s messages do not fit into their channels',
                quote_literal(v_full), (SELECT c.max_size FROM channel c WHERE c.name = v_full),
                cardinality(array_positions(a.results, 'full')), v_count),
            'Wait until there is room, raise max_size, or ask for messages that do not fit to be left out.');
    END IF;
    RETURN QUERY
    WITH given AS MATERIALIZED (
        SELECT unnest(p_messages) AS m, unnest(v_ids) AS id, unnest(a.results) AS result, unnest(a.holders) AS holder,
            unnest(a.are_counted) AS is_counted, generate_series(1, v_count) AS ord),
    made AS MATERIALIZED (
        INSERT INTO message (id, dequeue_at, created_at, max_attempts, cost, priority, lane, channel, headers, content,
            dedupe_key, is_counted)
        OVERRIDING SYSTEM VALUE
        SELECT g.id, COALESCE((m).dequeue_at, v_clock + (m).delay_ms, v_now), v_now, (m).max_attempts,
            COALESCE((m).cost, 1), COALESCE((m).priority, 0), COALESCE((m).lane, 'default'), (m).channel, (m).headers,
            (m).content, (m).dedupe_key, g.is_counted
        FROM given g WHERE g.result = 'created' ORDER BY g.ord
        RETURNING message.id),
    noticed AS (
        INSERT INTO notice (lo_id, hi_id, n) SELECT MIN(made.id), MAX(made.id), COUNT(*) FROM made HAVING COUNT(*) > 0)
    SELECT CASE g.result WHEN 'created' THEN g.id WHEN 'duplicate' THEN g.holder END, g.result FROM given g
    ORDER BY g.ord;
    PERFORM sleep_notify((
        SELECT MIN(COALESCE((m).dequeue_at, v_clock + (m).delay_ms, v_now))
        FROM (SELECT unnest(p_messages) AS m OFFSET 0) u));
END $$;
