-- Part of maintain: remove batches that were finished longer ago than the queue keeps them, up to p_limit rows. Skips
-- those that are locked. Returns how many rows were deleted.
CREATE OR REPLACE FUNCTION batch_trim (p_now BIGINT, p_limit INT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    v_ids BIGINT[] := ARRAY(
        SELECT c.batch_id FROM batch_count c WHERE c.finished_at <= batch_keep_from(p_now)
        ORDER BY c.finished_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
    v_parts BIGINT;
BEGIN
    DELETE FROM batch_part p WHERE p.ctid = ANY (ARRAY(
        SELECT x.ctid FROM batch_part x WHERE x.batch_id = ANY (v_ids) LIMIT p_limit));
    GET DIAGNOSTICS v_parts = ROW_COUNT;
    WITH gone AS (
        DELETE FROM batch b WHERE b.ctid = ANY (ARRAY(
            SELECT x.ctid FROM batch x
            WHERE x.id = ANY (v_ids) AND NOT EXISTS (SELECT FROM batch_part p WHERE p.batch_id = x.id)
            FOR UPDATE SKIP LOCKED))
        RETURNING b.id)
    SELECT array_agg(g.id) INTO v_ids FROM gone g;
    DELETE FROM batch_count c WHERE c.batch_id = ANY (v_ids);
    RETURN v_parts + COALESCE(cardinality(v_ids), 0);
END $$;
