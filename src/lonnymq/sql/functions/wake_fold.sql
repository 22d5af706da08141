-- Bring what was appended since the last fold into the ring, and leases that ran out back into their channels' lines.
-- Consumers call it before they dequeue, in a transaction of its own: it holds the fold lock until that ends (and is
-- cut off if it idles). Waits for nobody: if another one folds, or a row is held, it goes on without.
-- Each call does a bounded piece of work and keeps it. Writes nothing when there is nothing to do.
-- Returns TRUE when work was left, or may have been: call again.
CREATE OR REPLACE FUNCTION wake_fold (p_limit INT DEFAULT 1000)
RETURNS BOOLEAN LANGUAGE plpgsql
SET search_path FROM CURRENT SET plan_cache_mode TO force_generic_plan SET enable_seqscan TO off
SET enable_bitmapscan TO off SET enable_hashjoin TO off SET enable_mergejoin TO off SET jit TO off AS $$
DECLARE
    v_now BIGINT := clock_ms();
    t tick;                                 -- the last tick
    n tick;                                 -- the next one
    v_snapshot PG_SNAPSHOT;
    v_newer wake[];
    v_late wake[];
    v_wakes wake[];
    v_swept RECORD;
    v_due RECORD;
    v_late_ids BIGINT[];
    v_late_channels TEXT[];
    v_lease_from BIGINT;
    v_is_due BOOLEAN;
    v_is_swept BOOLEAN;
    v_is_more BOOLEAN;
BEGIN
    PERFORM isolation_check('wake_fold');
    IF p_limit IS NULL OR p_limit NOT BETWEEN 1 AND 100000 THEN
        PERFORM refuse('LM005', format('a fold of %s wakes is not possible', COALESCE(p_limit::TEXT, 'NULL')), 'Fold 1 to 100,000 at a time.');
    END IF;
    SELECT * INTO t FROM tick ORDER BY id DESC LIMIT 1;
    IF tick_is_foreign(t, v_now) THEN
        RETURN rebuild_if_free();
    END IF;
    -- Read before locking, so that an idle call writes nothing. The snapshot is that of this very statement.
    WITH s AS MATERIALIZED (SELECT pg_current_snapshot() AS snapshot)
    SELECT MIN(s.snapshot::TEXT), array_agg(w.wake) FILTER (WHERE NOT w.late), array_agg(w.wake) FILTER (WHERE w.late)
    INTO v_snapshot, v_newer, v_late
    FROM s LEFT JOIN LATERAL wake_read(t, s.snapshot, p_limit) w ON TRUE;
    v_is_due := EXISTS (SELECT FROM postponed p WHERE p.due_at > t.postponed_to AND p.due_at <= v_now);
    v_is_swept := lease_is_due(t, v_now);
    IF v_newer IS NULL AND v_late IS NULL AND NOT v_is_due AND NOT v_is_swept THEN
        RETURN FALSE;
    END IF;
    PERFORM FROM fold_lock FOR UPDATE SKIP LOCKED;
    IF NOT FOUND OR t.id <> (SELECT MAX(id) FROM tick) THEN
        RETURN TRUE;                        -- somebody else folds, or just did
    END IF;
    PERFORM fold_lock_guard();
    n := t;
    n.at := v_now;
    n.started_at := pg_postmaster_start_time();
    SELECT * INTO n.floor_at, n.floor_turn FROM ring_floor(t, v_now, p_limit);
    v_wakes := v_newer || v_late;
    v_is_more := COALESCE(cardinality(v_newer) = p_limit, FALSE) OR COALESCE(cardinality(v_late) >= p_limit, FALSE);
    IF v_is_due THEN
        SELECT * INTO v_due FROM postponed_read(t, v_now, p_limit);
        v_late_ids := v_due.message_ids;
        v_late_channels := v_due.channels;
        n.postponed_to := v_due.done_to;
        v_wakes := v_wakes || v_due.wakes;
        v_is_more := v_is_more OR v_due.is_more;
    END IF;
    SELECT MIN(w.lo_at), GREATEST(t.lease_max_at, MAX(w.hi_at)) INTO v_lease_from, n.lease_max_at FROM unnest(v_wakes) w WHERE w.channel IS NULL;
    IF v_is_swept OR v_lease_from <= t.swept_at OR v_late_ids IS NOT NULL OR (v_lease_from IS NOT NULL AND lease_is_due(n, v_now)) THEN
        SELECT * INTO v_swept FROM lease_sweep(t, v_lease_from, v_late_ids, v_now, p_limit);
        n.swept_at := v_swept.swept_at;
        n.swept_id := v_swept.swept_id;
        v_wakes := v_wakes || v_swept.wakes;
        v_is_more := v_is_more OR v_swept.is_more;
    END IF;
    PERFORM ring_place(v_wakes, v_late_channels, v_now, n.floor_at, n.floor_turn);
    IF cardinality(v_newer) = p_limit THEN
        SELECT w.xid, w.id INTO n.seen_xid, n.seen_id FROM unnest(v_newer) w ORDER BY w.xid DESC, w.id DESC LIMIT 1;
    ELSE
        n.seen_xid := pg_snapshot_xmax(v_snapshot);
        n.seen_id := 0;
    END IF;
    SELECT * INTO n.open_xids, n.open_ids FROM tick_open(t, n.seen_xid, v_snapshot, v_late, p_limit);
    DELETE FROM tick WHERE id = t.id;
    INSERT INTO tick (at, seen_xid, seen_id, open_xids, open_ids, swept_at, swept_id, lease_max_at, floor_at, floor_turn,
        postponed_to, started_at, system_id)
    VALUES (n.at, n.seen_xid, n.seen_id, n.open_xids, n.open_ids, n.swept_at, n.swept_id, n.lease_max_at, n.floor_at, n.floor_turn,
        n.postponed_to, n.started_at, n.system_id);
    RETURN v_is_more;
END $$;
