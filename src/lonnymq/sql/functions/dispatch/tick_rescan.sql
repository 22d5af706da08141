-- A tick that has read all notices so far, and from which the next dispatches read all messages and place those that
-- are in no place.
CREATE OR REPLACE FUNCTION tick_rescan (t tick, p_now BIGINT)
RETURNS tick LANGUAGE plpgsql AS $$
DECLARE
    v_snapshot PG_SNAPSHOT;
BEGIN
    -- In one statement, because the notices of transactions that commit later count the rest.
    SELECT pg_current_snapshot(), (SELECT COUNT(*) FROM message) - (SELECT COUNT(*) FROM message_leases(NULL))
    INTO v_snapshot, t.waiting;
    t.at := p_now;
    t.seen_xid := pg_snapshot_xmax(v_snapshot);
    t.seen_id := 0;
    t.open := ARRAY(
        SELECT ROW(x, 0)::open_transaction
        FROM (SELECT pg_current_xact_id() UNION SELECT pg_snapshot_xip(v_snapshot)) o (x)
        WHERE x < t.seen_xid);
    t.spans := '{}';
    t.due_to := -9223372036854775808;
    t.alarm_to := -9223372036854775808;
    t.locked_check_at := CASE WHEN EXISTS (SELECT FROM ready_locked) THEN p_now END;
    t.swept_at := 0;
    t.lease_max_at := COALESCE((SELECT MAX(l.end_at) FROM lease l), 0);
    t.policy_xid := '0';
    t.rescan_id := COALESCE((SELECT m.id - 1 FROM message m ORDER BY m.id LIMIT 1), 0);
    t.rescan_to := COALESCE((SELECT m.id FROM message m ORDER BY m.id DESC LIMIT 1), 0);
    t.rescan_snapshot := v_snapshot;
    t.started_at := pg_postmaster_start_time();
    t.system_id := (SELECT system_identifier FROM pg_control_system());
    RETURN t;
END $$;
