-- Part of maintain, which has locked maintenance: delete up to p_limit results whose time is over, and as many saved
-- ones. A call continues where the last one ended, so that it does not read dead rows; once a day all are read, because
-- a transaction may have committed late. Skips rows that are locked. Returns how many were deleted.
CREATE OR REPLACE FUNCTION results_delete (p_maintenance maintenance, p_now BIGINT, p_limit INT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    v_count BIGINT;
    v_last BIGINT;
    v_saved BIGINT;
    v_saved_last BIGINT;
    v_from BIGINT := CASE WHEN p_maintenance.dedupe_day = p_now / 86400000 THEN p_maintenance.results_from ELSE -1 END;
BEGIN
    WITH gone AS (
        DELETE FROM result r WHERE r.ctid = ANY (ARRAY(
            SELECT x.ctid FROM result x
            WHERE x.until_at > v_from AND x.until_at <= p_now
            ORDER BY x.until_at LIMIT p_limit FOR UPDATE SKIP LOCKED))
        RETURNING r.until_at)
    SELECT COUNT(*), MAX(g.until_at) - 1 INTO v_count, v_last FROM gone g;
    WITH gone AS (
        DELETE FROM saved_result s WHERE s.ctid = ANY (ARRAY(
            SELECT x.ctid FROM saved_result x
            WHERE x.until_at > v_from AND x.until_at <= p_now
            ORDER BY x.until_at LIMIT p_limit FOR UPDATE SKIP LOCKED))
        RETURNING s.until_at)
    SELECT COUNT(*), MAX(g.until_at) - 1 INTO v_saved, v_saved_last FROM gone g;
    UPDATE maintenance SET results_from = LEAST(CASE WHEN v_count = p_limit THEN v_last ELSE p_now END,
        CASE WHEN v_saved = p_limit THEN v_saved_last ELSE p_now END);
    RETURN v_count + v_saved;
END $$;
