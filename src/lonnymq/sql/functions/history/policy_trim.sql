-- Part of maintain: delete up to p_limit rows of policy_log that no kept history needs any more: they were superseded
-- before it begins, and all followers have read them. The caller has locked maintenance, where this records up to which
-- transaction rows are gone. Returns how many were deleted.
CREATE OR REPLACE FUNCTION policy_trim (p_now BIGINT, p_limit INT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    v_gone BIGINT;
    v_last XID8;
BEGIN
    WITH gone AS (
        DELETE FROM policy_log p
        WHERE p.ctid = ANY (ARRAY(SELECT o FROM policy_old(history_keep_from(p_now), p_limit) o))
        RETURNING p.xid)
    SELECT COUNT(*), MAX(g.xid) INTO v_gone, v_last FROM gone g;
    IF v_gone > 0 THEN
        UPDATE maintenance SET policies_xid = GREATEST(policies_xid, v_last);
    END IF;
    RETURN v_gone;
END $$;
