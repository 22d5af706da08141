-- Part of maintain: delete marks in dead_mark that are 90 days old, among the p_limit oldest. The caller has locked
-- maintenance, where this records up to which transaction marks are deleted. Returns how many were deleted.
CREATE OR REPLACE FUNCTION dead_unmark (p_now BIGINT, p_limit INT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    v_gone BIGINT;
    v_last XID8;
BEGIN
    WITH gone AS (
        DELETE FROM dead_mark d WHERE d.ctid = ANY (ARRAY(
            SELECT x.tid FROM (SELECT m.ctid AS tid, m.at FROM dead_mark m ORDER BY m.xid LIMIT p_limit) x
                WHERE x.at < p_now - 90 * 86400000::BIGINT))
        RETURNING d.xid)
    SELECT COUNT(*), MAX(g.xid) INTO v_gone, v_last FROM gone g;
    IF v_gone > 0 THEN
        UPDATE maintenance SET unmarked_xid = GREATEST(unmarked_xid, v_last);
    END IF;
    RETURN v_gone;
END $$;
