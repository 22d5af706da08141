-- Part of maintain: delete up to p_limit rows of audit that are older than the queue keeps them. Skips those that are
-- locked. Returns how many rows were deleted.
CREATE OR REPLACE FUNCTION audit_trim (p_now BIGINT, p_limit INT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    v_gone BIGINT;
BEGIN
    DELETE FROM audit a WHERE a.ctid = ANY (ARRAY(
        SELECT x.ctid FROM audit x WHERE x.at <= audit_keep_from(p_now)
        ORDER BY x.at LIMIT p_limit FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_gone = ROW_COUNT;
    RETURN v_gone;
END $$;
