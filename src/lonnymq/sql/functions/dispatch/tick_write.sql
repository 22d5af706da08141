-- Replace the tick by n. Returns n with its new id.
CREATE OR REPLACE FUNCTION tick_write (n tick)
RETURNS tick LANGUAGE plpgsql AS $$
BEGIN
    UPDATE tick t
    SET id = DEFAULT, at = n.at, seen_xid = n.seen_xid, seen_id = n.seen_id, open = n.open, spans = n.spans,
        due_to = n.due_to, alarm_to = n.alarm_to, locked_check_at = n.locked_check_at, swept_at = n.swept_at,
        lease_max_at = n.lease_max_at, policy_xid = n.policy_xid, lanes = n.lanes, waiting = n.waiting,
        served = n.served, served_at = n.served_at, tallied_at = n.tallied_at, tallied_id = n.tallied_id,
        rescan_id = n.rescan_id, rescan_to = n.rescan_to, rescan_snapshot = n.rescan_snapshot,
        started_at = n.started_at, system_id = n.system_id
    WHERE t.id = n.id RETURNING t.id INTO n.id;
    RETURN n;
END $$;
