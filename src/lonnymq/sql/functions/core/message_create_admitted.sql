-- Part of message_create_many: check them all, then create those that dedupe keys and sizes let in, and say what became
-- of the others.
CREATE OR REPLACE FUNCTION message_create_admitted (
    p_channels TEXT[], p_contents BYTEA[], p_dequeue_ats BIGINT[], p_headers JSONB[], p_max_attempts INT[],
    p_dedupe_keys TEXT[], p_priorities INT[], p_costs INT[], p_lanes TEXT[], p_raise_full BOOLEAN)
RETURNS TABLE (id BIGINT, result TEXT) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_now BIGINT := transaction_ms();
    v_max INT := (SELECT q.content_max_bytes FROM queue q);
    v_sequence REGCLASS := pg_get_serial_sequence('message', 'id');
    v_ids BIGINT[];
    a RECORD;
    v_full TEXT;                            -- the first channel that is full
BEGIN
    PERFORM FROM unnest(p_channels, p_contents, p_dequeue_ats, p_headers, p_max_attempts, p_dedupe_keys, p_priorities,
        p_costs)
        WITH ORDINALITY u (channel, content, at, headers, max_attempts, dedupe_key, priority, cost, ord)
    WHERE NOT message_is_usual(channel, content, at, headers, max_attempts, dedupe_key, NULL, priority, cost, NULL,
            v_max)
        AND message_check(channel, content, at, headers, max_attempts, dedupe_key, NULL, priority, cost, NULL,
            format(' (message %s of %s)', ord, cardinality(p_channels)));
    SELECT array_agg(x.id ORDER BY x.ord) INTO v_ids
    FROM (SELECT nextval(v_sequence) AS id, ord FROM generate_subscripts(p_channels, 1) ord) x;
    SELECT * INTO a FROM message_admit(p_channels, p_dedupe_keys, v_ids);
    IF p_raise_full AND 'full' = ANY (a.results) THEN
        v_full := p_channels[array_position(a.results, 'full')];
        PERFORM refuse('LM017',
            format('channel %s is full (max_size %s): %s of %s messages do not fit into their channels',
                quote_literal(v_full), (SELECT c.max_size FROM channel c WHERE c.name = v_full),
                cardinality(array_positions(a.results, 'full')), cardinality(p_channels)),
            'Wait until there is room, raise max_size, or ask for messages that do not fit to be left out.');
    END IF;
    RETURN QUERY
    WITH given AS MATERIALIZED (
        SELECT * FROM unnest(
            p_channels, p_contents, p_dequeue_ats, p_headers, p_max_attempts, p_dedupe_keys, p_priorities, p_costs,
            p_lanes, v_ids, a.results, a.holders, a.are_counted)
            WITH ORDINALITY u (channel, content, at, headers, max_attempts, dedupe_key, priority, cost,
                lane, id, result, holder, is_counted, ord)),
    made AS MATERIALIZED (
        INSERT INTO message (id, dequeue_at, created_at, max_attempts, cost, priority, lane, channel, headers, content,
            dedupe_key, is_counted)
        OVERRIDING SYSTEM VALUE
        SELECT g.id, COALESCE(g.at, v_now), v_now, g.max_attempts, COALESCE(g.cost, 1), COALESCE(g.priority, 0),
            COALESCE(g.lane, 'default'), g.channel, g.headers, g.content, g.dedupe_key, g.is_counted
        FROM given g WHERE g.result = 'created' ORDER BY g.ord
        RETURNING message.id),
    told AS (
        INSERT INTO notice (lo_id, hi_id, n) SELECT MIN(made.id), MAX(made.id), COUNT(*) FROM made HAVING COUNT(*) > 0)
    SELECT CASE g.result WHEN 'created' THEN g.id WHEN 'duplicate' THEN g.holder END, g.result FROM given g
        ORDER BY g.ord;
END $$;
