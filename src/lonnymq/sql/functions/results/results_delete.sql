-- Part of maintain, which has locked maintenance: delete up to p_limit results whose time is over. A call continues
-- where the last one ended, so that it does not read dead rows; once a day all are read, because a transaction may have
-- committed late. Skips rows that are locked. Returns how many were deleted.
CREATE OR REPLACE FUNCTION results_delete (p_maintenance maintenance, p_now BIGINT, p_limit INT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    v_count BIGINT;
    v_last BIGINT;
BEGIN
    WITH gone AS (
        DELETE FROM result r WHERE r.ctid = ANY (ARRAY(
            SELECT x.ctid FROM result x
            WHERE x.until_at > CASE WHEN p_maintenance.dedupe_day = p_now / 86400000 THEN p_maintenance.results_from
                ELSE -1 END AND x.until_at <= p_now
            ORDER BY x.until_at LIMIT p_limit FOR UPDATE SKIP LOCKED))
        RETURNING r.until_at)
    SELECT COUNT(*), MAX(g.until_at) - 1 INTO v_count, v_last FROM gone g;
    UPDATE maintenance SET results_from = CASE WHEN v_count = p_limit THEN v_last ELSE p_now END;
    RETURN v_count;
END $$;
