-- Create messages from the rows that the caller's login role has staged under some batches, in the order of the batches
-- and their rows, and delete the rows. A full channel is an error (LM017), unless p_drop_full: then its rows are
-- deleted too, and counted as refused. With dedupe keys, or if channels have a max_size, all messages are created in
-- one call of message_create_many, so that their locks are taken in order.
CREATE OR REPLACE FUNCTION staging_create (p_batches UUID[], p_drop_full BOOLEAN, OUT created BIGINT,
    OUT duplicates BIGINT, OUT refused BIGINT)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    c_most CONSTANT INT := 100000;          -- whose locks are taken at once
    v_login REGROLE := quote_ident(session_user)::REGROLE;
    v_is_one BOOLEAN := (SELECT q.has_sizes FROM queue q) OR EXISTS (
        SELECT FROM unnest(p_batches) b (batch)
        CROSS JOIN LATERAL (
            SELECT FROM staging x WHERE x.batch = b.batch AND x.staged_by = v_login
                AND x.dedupe_key IS NOT NULL LIMIT 1) x);
    v_step INT := CASE WHEN v_is_one THEN c_most + 1 ELSE 10000 END;
    v_bytes INT := CASE WHEN v_is_one THEN 512 ELSE 64 END << 20; -- of content: PostgreSQL's arrays end at 1 GiB
    v_batch UUID;
    v_batches UUID[];
    v_from BIGINT;
    s RECORD;
    r RECORD;
BEGIN
    created := 0;
    duplicates := 0;
    refused := 0;
    FOREACH v_batch IN ARRAY p_batches LOOP
        v_batches := CASE WHEN v_is_one THEN p_batches ELSE ARRAY[v_batch] END;
        v_from := -9223372036854775808;
        LOOP
            -- Continue at the last row: the rows before it are deleted, and reading their dead versions takes time. A
            -- row that is staged while this runs is published with the others, or stays: only rows that were read are
            -- deleted.
            WITH gone AS (
                DELETE FROM staging g WHERE g.ctid = ANY (ARRAY(
                    SELECT z.tid
                    FROM (
                        SELECT x.tid, SUM(x.bytes) OVER (ORDER BY b.n,
                            x.ord ROWS UNBOUNDED PRECEDING) - x.bytes AS before
                        FROM unnest(v_batches) WITH ORDINALITY b (batch, n)
                        CROSS JOIN LATERAL (
                            SELECT y.ctid AS tid, y.ord, COALESCE(octet_length(y.content), 0) AS bytes FROM staging y
                            WHERE y.batch = b.batch AND y.ord >= v_from AND y.staged_by = v_login
                            ORDER BY y.batch, y.ord LIMIT v_step) x
                        WHERE b.n = array_position(v_batches, b.batch)) z
                    WHERE z.before <= v_bytes
                    LIMIT v_step))
                RETURNING g.*)
            SELECT array_agg(x.channel) AS channels, array_agg(x.content) AS contents,
                array_agg(x.dequeue_at) AS ats, array_agg(x.headers) AS headers,
                array_agg(x.max_attempts) AS max_attempts, array_agg(x.dedupe_key) AS keys,
                    array_agg(x.priority) AS priorities,
                array_agg(x.cost) AS costs, array_agg(x.lane) AS lanes, COUNT(*) AS n, MAX(x.ord) AS last,
                SUM(octet_length(x.content)) AS bytes
            INTO s FROM (SELECT * FROM gone ORDER BY array_position(v_batches, batch), ord) x;
            EXIT WHEN s.n = 0;
            IF s.n > c_most OR v_is_one AND s.bytes > v_bytes THEN
                PERFORM refuse('LM005', 'the batch holds more than 100,000 messages, or 512 MiB',
                    'With dedupe keys or a max_size, publish at most 100,000 and 512 MiB at once.');
            END IF;
            SELECT COUNT(*) FILTER (WHERE m.result = 'created') AS created,
                COUNT(*) FILTER (WHERE m.result = 'duplicate') AS duplicates,
                COUNT(*) FILTER (WHERE m.result = 'full') AS refused
            INTO r FROM message_create_many(s.channels, s.contents, s.ats, s.headers, s.max_attempts, s.keys,
                NOT p_drop_full,
                NULL, s.priorities, s.costs, s.lanes) m;
            created := created + r.created;
            duplicates := duplicates + r.duplicates;
            refused := refused + r.refused;
            EXIT WHEN v_is_one;
            v_from := s.last;
        END LOOP;
        EXIT WHEN v_is_one;
    END LOOP;
END $$;
