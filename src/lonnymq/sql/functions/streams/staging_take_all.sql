-- Delete the rows and chunks that the caller's login role has staged under some batches, and return their messages, in
-- the order of the batches, and of each batch the rows before the chunks.
-- Refuses more messages than locks can be taken for at once.
CREATE OR REPLACE FUNCTION staging_take_all (p_batches UUID[])
RETURNS new_message[] LANGUAGE plpgsql AS $$
DECLARE
    c_most CONSTANT INT := 100000;
    c_most_bytes CONSTANT INT := 512 << 20;
    v_messages new_message[];
    v_are_too_many BOOLEAN := (
        SELECT SUM(cardinality(x.channel)) > c_most
            OR SUM(pg_column_size(x.content) + COALESCE(pg_column_size(x.headers), 0)) > c_most_bytes * 1.1
        FROM staging_chunk x
        WHERE x.batch = ANY (p_batches) AND x.staged_by = quote_ident(session_user)::REGROLE);
BEGIN
    IF v_are_too_many IS NOT TRUE THEN
        v_messages := ARRAY(
            SELECT t.message
            FROM (
                SELECT 1 AS kind, r.* FROM staging_take(p_batches, c_most + 1, c_most_bytes) r
                UNION ALL
                SELECT 2, c.* FROM staging_take_chunks(p_batches) c) t
            ORDER BY array_position(p_batches, t.batch), t.kind, t.ord);
        v_are_too_many := cardinality(v_messages) > c_most
            OR (SELECT SUM(COALESCE(octet_length(m.content), 0) + COALESCE(pg_column_size(m.headers), 0))
                FROM unnest(v_messages) m) > c_most_bytes;
    END IF;
    IF v_are_too_many THEN
        PERFORM refuse('LM005', 'the batch holds more than 100,000 messages, or 512 MiB',
            'With dedupe keys or a max_size, publish at most 100,000 and 512 MiB at once.');
    END IF;
    RETURN v_messages;
END $$;
