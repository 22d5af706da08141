-- Make messages of the rows that the caller's login role has staged under a batch, in their order, and take them away. All of it,
-- or nothing, is there when the transaction commits. A batch with dedupe keys, or any where channels have a max_size, holds at
-- most 100,000: their locks are taken in order.
-- Returns how many messages were created, and how many were not: duplicates, or their channel is full.
CREATE OR REPLACE FUNCTION staging_publish (p_batch UUID)
RETURNS TABLE (created BIGINT, duplicates BIGINT, refused BIGINT) LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET enable_seqscan TO off SET enable_bitmapscan TO off SET jit TO off AS $$
#variable_conflict use_column
DECLARE
    v_step INT := 10000;
    v_is_first BOOLEAN := TRUE;
    s RECORD;
    r RECORD;
BEGIN
    created := 0;
    duplicates := 0;
    refused := 0;
    IF (SELECT q.has_sizes FROM queue q) OR EXISTS (SELECT FROM staging x WHERE x.batch = p_batch AND x.dedupe_key IS NOT NULL) THEN
        v_step := 100000;
    END IF;
    LOOP
        -- What is staged while this runs is published with the rest or stays: only what was read goes.
        WITH gone AS (
            DELETE FROM staging g WHERE g.ctid = ANY (ARRAY(
                SELECT x.ctid FROM staging x WHERE x.batch = p_batch AND x.staged_by = session_user ORDER BY x.batch, x.ord LIMIT v_step FOR UPDATE))
            RETURNING g.*)
        SELECT array_agg(x.channel) AS channels, array_agg(x.content) AS contents, array_agg(x.dequeue_at) AS ats, array_agg(x.headers) AS headers,
            array_agg(x.max_attempts) AS max_attempts, array_agg(x.dedupe_key) AS keys, COUNT(*) AS n
        INTO s FROM (SELECT * FROM gone ORDER BY ord) x;
        EXIT WHEN s.n = 0;
        IF v_step = 100000 AND NOT v_is_first THEN
            PERFORM refuse('LM005', 'the batch holds more than 100,000 messages', 'With dedupe keys or a max_size, publish at most 100,000 at once.');
        END IF;
        SELECT COUNT(*) FILTER (WHERE m.result = 'created') AS created, COUNT(*) FILTER (WHERE m.result = 'duplicate') AS duplicates,
            COUNT(*) FILTER (WHERE m.result = 'full') AS refused
        INTO r FROM message_create_many(s.channels, s.contents, s.ats, s.headers, s.max_attempts, s.keys) m;
        created := created + r.created;
        duplicates := duplicates + r.duplicates;
        refused := refused + r.refused;
        v_is_first := FALSE;
    END LOOP;
    RETURN NEXT;
END $$;
