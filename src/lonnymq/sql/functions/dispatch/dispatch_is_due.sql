-- Whether a dispatch has anything to do besides reading notices. p_behind_ms: how far swept_at may fall behind. Reads a
-- few index entries. Locks and writes nothing.
CREATE OR REPLACE FUNCTION dispatch_is_due (p_tick tick, p_now BIGINT, p_behind_ms BIGINT)
RETURNS BOOLEAN LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN p_now < p_tick.at - 1000 OR EXISTS (
            SELECT FROM policy_change c WHERE c.xid >= p_tick.policy_xid)
        OR p_tick.spans <> '{}' OR p_tick.rescan_id IS NOT NULL OR COALESCE(p_tick.locked_check_at <= p_now, FALSE)
            OR lease_is_due(p_tick, p_now, p_behind_ms)
        OR (SELECT s.at FROM scheduled s WHERE s.at > p_tick.due_to AND s.at <= p_now ORDER BY s.at, s.id LIMIT 1)
            IS NOT NULL
        OR EXISTS (SELECT FROM alarm a WHERE a.at > p_tick.alarm_to AND a.at <= p_now)
        OR EXISTS (SELECT FROM unnest(p_tick.lanes) l
            WHERE lane_is_low(l) OR lane_has_rollback(l) OR l.stuck_at < p_now - 1000);
END $$;
