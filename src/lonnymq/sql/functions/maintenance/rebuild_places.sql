-- Part of rebuild: empty all places and start a rescan. Takes the dispatch lock and locks the table ready, waiting for
-- both. The transaction must not have written anything else before.
CREATE OR REPLACE FUNCTION rebuild_places ()
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_now BIGINT := clock_ms();
    t tick;
    x RECORD;                               -- what dispatch_read returned
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
    IF NOT tick_is_unusable(t) THEN         -- read the notices of dequeues
        x := dispatch_read(t, v_now, 1000000);
        t := tick_next(t, x.summary, x.notices, v_now);
        PERFORM slots_mark_released(x.notices, t.lanes, clock_ms());
    END IF;
    -- Tags continue from where they were.
    t.lanes := ARRAY(
        SELECT lane_new(l.name, l.issued + 1, l.target)
        FROM (
            SELECT l.name, l.issued, l.target FROM unnest(t.lanes) l
            UNION ALL
            SELECT 'default', COALESCE((SELECT MAX(r.tag) FROM ready r), 0), 100 WHERE t.lanes = '{}') l);
    DELETE FROM ready;
    DELETE FROM line;
    DELETE FROM backlog;
    DELETE FROM scheduled;
    DELETE FROM alarm;
    DELETE FROM ready_locked;
    DELETE FROM recent_tag;
    DELETE FROM policy_change;
    UPDATE slots SET out = '{}';
    PERFORM slots_reset(ARRAY(
        SELECT c.name FROM channel c UNION SELECT unnest(slots_channels()) UNION SELECT ''), v_now);
    PERFORM tick_write(tick_rescan(t, v_now));
END $$;
