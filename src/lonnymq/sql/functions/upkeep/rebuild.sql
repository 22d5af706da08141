-- Remake all derived state (ring, wakes, tick, postponed) from the messages and the policies. Folds call it by themselves when there is no
-- tick; after a restore they find every channel again from its messages, in pieces. Waits for open dequeues and holds new ones up
-- until it commits, which it must within a few seconds (lock_guard); producers and finishers go on. The places in the ring are then filled by the next folds.
CREATE OR REPLACE FUNCTION rebuild ()
RETURNS VOID LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET enable_seqscan TO off SET enable_bitmapscan TO off SET jit TO off AS $$
DECLARE
    v_now BIGINT := clock_ms();
    t tick;
    v_is_foreign BOOLEAN;
    v_snapshot PG_SNAPSHOT;
    v_waiting BIGINT;
    v_served BIGINT;
BEGIN
    PERFORM isolation_check('rebuild');
    PERFORM free_check('rebuild');
    PERFORM FROM fold_lock FOR UPDATE;
    LOCK TABLE ring IN EXCLUSIVE MODE;
    -- Whatever this snapshot does not see commits its wakes later and is read by the folds to come.
    SELECT * INTO t FROM tick ORDER BY id DESC LIMIT 1;
    v_is_foreign := tick_is_foreign(t);
    SELECT pg_current_snapshot(), (SELECT COUNT(*) FROM message WHERE NOT leased), COALESCE(t.served, 0) - COALESCE(SUM(w.n), 0)
    INTO v_snapshot, v_waiting, v_served
    FROM wake w                             -- of dequeues that no fold has read
    WHERE w.channel IS NULL AND w.lo_at IS NOT NULL AND (
        (w.xid, w.id) > (t.seen_xid, t.seen_id) AND w.xid <> ALL (t.open_xids)
        OR EXISTS (SELECT FROM unnest(t.open_xids, t.open_ids) o (xid, id) WHERE o.xid = w.xid AND o.id < w.id));
    DELETE FROM tick;
    DELETE FROM postponed;
    DELETE FROM wake w WHERE v_is_foreign OR pg_visible_in_snapshot(w.xid, v_snapshot) OR w.xid = pg_current_xact_id();
    DELETE FROM ring r WHERE EXISTS (SELECT FROM ring x WHERE x.channel = r.channel AND x.turn > r.turn);
    UPDATE ring SET turn = nextval('turn'), due_at = NULL, is_full = FALSE, head_at = NULL, head_id = NULL, gaps = NULL,
        released_at = CASE WHEN released_at > v_now THEN v_now ELSE released_at END, running = NULL;
    -- A channel without a row would be taken for one that has nothing leased.
    INSERT INTO ring (channel, turn)
    SELECT m.channel, nextval('turn')
    FROM (SELECT DISTINCT m.channel FROM message m WHERE m.leased) m
    WHERE NOT EXISTS (SELECT FROM ring r WHERE r.channel = m.channel);
    INSERT INTO wake (channel, lo_at, lo_id, hi_at, hi_id)
    WITH RECURSIVE first AS (
        (SELECT channel, dequeue_at, id FROM message WHERE NOT leased ORDER BY channel, dequeue_at, id LIMIT 1)
        UNION ALL
        SELECT next.* FROM first CROSS JOIN LATERAL (
            SELECT m.channel, m.dequeue_at, m.id FROM message m
            WHERE NOT m.leased AND m.channel > first.channel ORDER BY m.channel, m.dequeue_at, m.id LIMIT 1) next)
    SELECT channel, dequeue_at, id, 9223372036854775807, 9223372036854775807 FROM first;
    INSERT INTO tick (at, seen_xid, seen_id, open_xids, open_ids, swept_at, swept_id, lease_max_at, floor_at, floor_turn,
        postponed_to, postponed_id, started_at, system_id, waiting, served)
    SELECT v_now, pg_snapshot_xmax(v_snapshot), 0, COALESCE(array_agg(x), '{}'), COALESCE(array_agg(0), '{}'),
        -9223372036854775808, 0, COALESCE((SELECT MAX(lease_end_at) FROM message WHERE leased), 0), -9223372036854775808, 0,
        v_now, 0, pg_postmaster_start_time(), (SELECT system_identifier FROM pg_control_system()),
        v_waiting, v_served
    FROM (SELECT pg_current_xact_id() AS x UNION SELECT pg_snapshot_xip(v_snapshot)) o WHERE x < pg_snapshot_xmax(v_snapshot);
    PERFORM lock_guard();
END $$;
