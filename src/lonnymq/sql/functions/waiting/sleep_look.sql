-- For a sleeping consumer: whether there is something to dispatch, or to dequeue from its lanes (p_lanes; NULL: all),
-- and if not, when to look again. Replaces a dequeue, a dispatch and another dequeue by one call that reads a few index
-- entries. Locks and writes nothing. Returns is_due: dispatch and dequeue now; again_at: otherwise sleep until this
-- time or a notification, at most a second; is_awaited: the sleep_begin that returned p_generation is still valid, so
-- writers notify; now_at: the time at which all this was true.
CREATE OR REPLACE FUNCTION sleep_look (p_generation BIGINT DEFAULT NULL, p_lanes TEXT[] DEFAULT NULL)
RETURNS TABLE (is_due BOOLEAN, again_at BIGINT, is_awaited BOOLEAN, now_at BIGINT)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM isolation_check('sleep_look');
    PERFORM unbound_check('sleep_look');
    now_at := clock_ms();
    again_at := dequeue_again_at(now_at);
    is_due := again_at <= now_at OR NOT (SELECT q.paused FROM queue q) AND EXISTS (
        SELECT FROM (SELECT * FROM tick t ORDER BY t.id DESC LIMIT 1) t
        CROSS JOIN unnest(t.lanes) l
        CROSS JOIN LATERAL (
            SELECT FROM ready r WHERE r.lane = l.name AND r.tag >= l.floor AND r.tag <= l.horizon
                AND r.xmax = '0' AND r.channel <> ALL (ARRAY(
                    SELECT c.channel FROM policy_change c WHERE c.xid >= t.policy_xid))
            ORDER BY r.tag, r.id LIMIT 1) r
        WHERE p_lanes IS NULL OR l.name = ANY (p_lanes));
    is_awaited := COALESCE((
        SELECT s.is_asleep AND s.id = p_generation AND (SELECT q.notify FROM queue q)
        FROM sleep s ORDER BY s.id DESC LIMIT 1), FALSE);
    RETURN NEXT;
END $$;
