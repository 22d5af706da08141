-- Part of rebuild: empty all places, and have the dispatches to come look for every message. The transaction has
-- written nothing before but the dispatch lock.
CREATE OR REPLACE FUNCTION rebuild_places ()
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_now BIGINT := clock_ms();
    t tick;
    x RECORD;                               -- what was read
BEGIN
    PERFORM FROM dispatch_lock FOR UPDATE;
    LOCK TABLE ready IN EXCLUSIVE MODE;
    SELECT * INTO t FROM tick ORDER BY id DESC LIMIT 1;
    IF t.id IS NULL THEN
        INSERT INTO tick (at, seen_xid, seen_id, open, spans, due_to, alarm_to, swept_at, lease_max_at, lanes,
            waiting, served,
            tallied_at, tallied_id, started_at, system_id)
        SELECT 0, pg_snapshot_xmax(pg_current_snapshot()), 0, '{}', '{}', 0, 0, 0, 0, '{}', 0, 0, 0, 0,
            pg_postmaster_start_time(), (SELECT system_identifier FROM pg_control_system())
        RETURNING * INTO t;
    END IF;
    IF NOT tick_is_foreign(t) THEN          -- what dequeues told and nobody has read
        x := dispatch_read(t, v_now, 1000000);
        t := tick_count(t, x.told, x.notices, v_now);
        PERFORM slots_released(x.notices, t.lanes, clock_ms());
    END IF;
    -- The tags go on from where they were.
    t.lanes := ARRAY(
        SELECT lane_begin(l.name, l.issued + 1, l.target)
        FROM (
            SELECT l.name, l.issued, l.target FROM unnest(t.lanes) l
            UNION ALL
            SELECT 'default', COALESCE((SELECT MAX(r.tag) FROM ready r), 0), 100 WHERE t.lanes = '{}') l);
    DELETE FROM ready;
    DELETE FROM line;
    DELETE FROM backlog;
    DELETE FROM scheduled;
    DELETE FROM alarm;
    DELETE FROM held;
    DELETE FROM recent;
    DELETE FROM policy_change;
    DELETE FROM slots s WHERE s.channel <> '' AND NOT EXISTS (SELECT FROM channel c WHERE c.name = s.channel);
    PERFORM slots_change(ARRAY(SELECT c.name FROM channel c UNION ALL SELECT ''), v_now);
    PERFORM tick_write(tick_walk(t, v_now));
END $$;
