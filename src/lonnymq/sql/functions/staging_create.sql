-- Make messages of what the caller's login role has staged under some batches, in the order of the batches and their rows, and take it away.
-- With dedupe keys, or where channels have a max_size, all of it in one call: their locks are taken in order.
CREATE OR REPLACE FUNCTION staging_create (p_batches UUID[], OUT created BIGINT, OUT duplicates BIGINT, OUT refused BIGINT)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    c_most CONSTANT INT := 100000;          -- whose locks are taken at once
    v_step INT := 10000;
    v_batch UUID;
    v_batches UUID[];
    v_from BIGINT;
    s RECORD;
    r RECORD;
BEGIN
    created := 0;
    duplicates := 0;
    refused := 0;
    IF (SELECT q.has_sizes FROM queue q)
        OR EXISTS (SELECT FROM unnest(p_batches) b (batch) JOIN staging x ON x.batch = b.batch WHERE x.dedupe_key IS NOT NULL)
    THEN
        v_step := c_most + 1;
    END IF;
    FOREACH v_batch IN ARRAY p_batches LOOP
        v_batches := CASE WHEN v_step > c_most THEN p_batches ELSE ARRAY[v_batch] END;
        v_from := -9223372036854775808;
        LOOP
            -- From the last row on: those before it are gone, and would be read again. What is staged while this runs is published
            -- with the rest or stays: only what was read goes.
            WITH gone AS (
                DELETE FROM staging g WHERE g.ctid = ANY (ARRAY(
                    SELECT x.tid FROM unnest(v_batches) WITH ORDINALITY b (batch, n)
                    CROSS JOIN LATERAL (
                        SELECT y.ctid AS tid FROM staging y WHERE y.batch = b.batch AND y.ord >= v_from AND y.staged_by = session_user
                        ORDER BY y.batch, y.ord LIMIT v_step) x
                    LIMIT v_step))
                RETURNING g.*)
            SELECT array_agg(x.channel) AS channels, array_agg(x.content) AS contents, array_agg(x.dequeue_at) AS ats, array_agg(x.headers) AS headers,
                array_agg(x.max_attempts) AS max_attempts, array_agg(x.dedupe_key) AS keys, COUNT(*) AS n, MAX(x.ord) AS last
            INTO s FROM (SELECT * FROM gone ORDER BY array_position(v_batches, batch), ord) x;
            EXIT WHEN s.n = 0;
            IF s.n > c_most THEN
                PERFORM refuse('LM005', 'the batch holds more than 100,000 messages', 'With dedupe keys or a max_size, publish at most 100,000 at once.');
            END IF;
            SELECT COUNT(*) FILTER (WHERE m.result = 'created') AS created, COUNT(*) FILTER (WHERE m.result = 'duplicate') AS duplicates,
                COUNT(*) FILTER (WHERE m.result = 'full') AS refused
            INTO r FROM message_create_many(s.channels, s.contents, s.ats, s.headers, s.max_attempts, s.keys) m;
            created := created + r.created;
            duplicates := duplicates + r.duplicates;
            refused := refused + r.refused;
            EXIT WHEN s.n < v_step;
            v_from := s.last;
        END LOOP;
        EXIT WHEN v_step > c_most;
    END LOOP;
END $$;
