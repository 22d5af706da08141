-- Bring what was appended since the last fold into the ring, and leases that ran out back into their channels' lines.
-- Consumers call it before they dequeue, in a transaction of its own: it holds the fold lock until that ends, which it must within a
-- few seconds (lock_guard). Waits for nobody: if another one folds, or a row is held, it goes on without.
-- Each call does a bounded piece of work and keeps it. Writes nothing when there is nothing to do.
-- With p_quiet_ms it does nothing, and says FALSE, if somebody folded less than so long ago: many consumers need not fold more
-- often than one.
-- Returns TRUE when work was left, or may have been: call again.
CREATE OR REPLACE FUNCTION wake_fold (p_limit INT DEFAULT 1000, p_quiet_ms INT DEFAULT 0)
RETURNS BOOLEAN LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET plan_cache_mode TO force_generic_plan SET enable_seqscan TO off SET enable_bitmapscan TO off
SET enable_hashjoin TO off SET enable_mergejoin TO off SET enable_tidscan TO on SET jit TO off AS $$
DECLARE
    v_now BIGINT;
    t tick;                                 -- the last tick
    n tick;                                 -- the next one
    v_snapshot PG_SNAPSHOT;
    v_newer wake[];
    v_late wake[];
    v_wakes wake[];
    v_due postponed[];                      -- what is to be tried again
    v_due_leases BIGINT[];
    v_lease_from BIGINT;
    v_is_more BOOLEAN;
    v_new BIGINT;                           -- messages with higher ids than any before
    v_missing_id BIGINT;                    -- one of the largest number of ids that are missing among them
    v_floor RECORD;
    v_review RECORD;
    v_resume RECORD;
    v_swept RECORD;
    v_placed RECORD;
    v_held TEXT[];
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM isolation_check('wake_fold');
    END IF;
    IF p_limit IS NULL OR p_limit NOT BETWEEN 1 AND 100000 OR p_quiet_ms IS NULL OR p_quiet_ms < 0 THEN
        PERFORM refuse('LM005', format('a fold of %s wakes after %s ms is not possible', COALESCE(p_limit::TEXT, 'NULL'), COALESCE(p_quiet_ms::TEXT, 'NULL')),
            'Fold 1 to 100,000 at a time, after 0 ms or more.');
    END IF;
    IF (SELECT q.has_bound FROM queue q) THEN
        PERFORM free_check('wake_fold');
    END IF;
    SELECT * INTO t FROM tick ORDER BY id DESC LIMIT 1;
    v_now := clock_ms();
    IF v_now BETWEEN t.at AND t.at + p_quiet_ms - 1 THEN
        RETURN FALSE;
    ELSIF tick_is_foreign(t) OR v_now < t.at - 1000 THEN
        PERFORM tick_renew();
        RETURN TRUE;
    END IF;
    -- Read before locking, so that an idle call writes nothing. The snapshot is that of this very statement.
    WITH s AS MATERIALIZED (SELECT pg_current_snapshot() AS snapshot)
    SELECT MIN(s.snapshot::TEXT), array_agg(w.wake) FILTER (WHERE NOT w.late), array_agg(w.wake) FILTER (WHERE w.late)
    INTO v_snapshot, v_newer, v_late
    FROM s LEFT JOIN LATERAL wake_read(t, s.snapshot, p_limit) w ON TRUE;
    SELECT array_agg(p.p) INTO v_due
    FROM (SELECT p FROM postponed p WHERE p.due_at > t.postponed_to AND p.due_at <= v_now ORDER BY p.due_at, p.id LIMIT p_limit) p;
    IF v_newer IS NULL AND v_late IS NULL AND v_due IS NULL AND t.review_at IS NULL AND t.resume_channel IS NULL AND NOT lease_is_due(t, v_now, 1000) THEN
        RETURN FALSE;
    END IF;
    PERFORM FROM fold_lock FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN TRUE;                        -- somebody else folds,
    ELSIF t.id <> (SELECT MAX(id) FROM tick) THEN
        PERFORM lock_guard();
        RETURN TRUE;                        -- or just did
    END IF;
    n := t;
    n.at := GREATEST(v_now, t.at);
    n.started_at := pg_postmaster_start_time();
    SELECT * INTO v_floor FROM ring_floor(t, v_now, p_limit);
    n.floor_at := v_floor.floor_at;
    n.floor_turn := v_floor.floor_turn;
    v_held := v_floor.held;
    v_wakes := v_newer || v_late;
    v_is_more := COALESCE(cardinality(v_newer) = p_limit, FALSE) OR COALESCE(cardinality(v_late) >= p_limit, FALSE);
    SELECT MIN(w.lo_at) FILTER (WHERE w.channel IS NULL), GREATEST(t.lease_max_at, MAX(w.hi_at) FILTER (WHERE w.channel IS NULL)),
        t.waiting + COALESCE(SUM(w.n), 0), t.served - COALESCE(SUM(w.n) FILTER (WHERE w.channel IS NULL AND w.lo_at IS NOT NULL), 0),
        GREATEST(t.last_id, MAX(w.hi_id) FILTER (WHERE w.n > 0)), SUM(w.n) FILTER (WHERE w.lo_id > t.last_id)
    INTO v_lease_from, n.lease_max_at, n.waiting, n.served, n.last_id, v_new FROM unnest(v_wakes) w;
    -- Many ids are missing: who made these messages has not committed, and meanwhile they stand, unseen, in lines that others read.
    -- The tail waits for them, but not for ever where there are always some.
    IF n.last_id - t.last_id - v_new > 100 AND pg_snapshot_xmin(v_snapshot) < pg_snapshot_xmax(v_snapshot)
        AND (t.tail_xid IS NULL OR n.at < t.tail_at + 10000)
    THEN
        n.tail_xid := pg_snapshot_xmax(v_snapshot);
        SELECT x.lo_id - 1 INTO v_missing_id
        FROM (
            SELECT w.lo_id, w.lo_id - COALESCE(MAX(w.hi_id) OVER (ORDER BY w.lo_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), t.last_id) AS n
            FROM unnest(v_wakes) w WHERE w.n > 0 AND w.lo_id > t.last_id) x
        ORDER BY x.n DESC LIMIT 1;
    ELSIF t.tail_xid <= pg_snapshot_xmin(v_snapshot) THEN
        n.tail_xid := NULL;
    END IF;
    IF n.tail_xid IS NULL THEN
        n.tail_at := GREATEST(t.tail_at, n.at + 1);
    END IF;
    IF t.review_at IS NOT NULL THEN
        SELECT * INTO v_review FROM ring_review(t, p_limit);
        n.review_at := v_review.review_at;
        n.review_turn := v_review.review_turn;
        v_wakes := v_wakes || v_review.wakes;
        v_is_more := v_is_more OR n.review_at IS NOT NULL;
    END IF;
    IF t.resume_channel IS NOT NULL THEN
        SELECT * INTO v_resume FROM ring_resume(t, p_limit);
        n.resume_channel := v_resume.resume_channel;
        v_wakes := v_wakes || v_resume.wakes;
        v_is_more := v_is_more OR n.resume_channel IS NOT NULL;
    END IF;
    IF v_due IS NOT NULL THEN
        v_is_more := v_is_more OR cardinality(v_due) = p_limit;
        n.postponed_to := CASE WHEN cardinality(v_due) = p_limit THEN (SELECT MAX(d.due_at) - 1 FROM unnest(v_due) d) ELSE GREATEST(v_now, t.postponed_to) END;
        v_wakes := v_wakes || wakes_of(v_due);
        SELECT array_agg(substr(d.key, 2)::BIGINT) INTO v_due_leases FROM unnest(v_due) d WHERE left(d.key, 1) = 'm';
    END IF;
    -- With every tick that is written: entries of leases that ended long since, which a held snapshot keeps, are then read once.
    IF (t.lease_max_at, 9223372036854775807) > (t.swept_at, t.swept_id) OR v_lease_from <= GREATEST(v_now, t.swept_at) OR v_due_leases IS NOT NULL THEN
        SELECT * INTO v_swept FROM lease_sweep(t, v_lease_from, v_due_leases, v_now, p_limit);
        n.swept_at := v_swept.swept_at;
        n.swept_id := v_swept.swept_id;
        v_wakes := v_wakes || v_swept.wakes;
        v_held := v_held || v_swept.held;
        n.waiting := n.waiting + v_swept.back_count;
        v_is_more := v_is_more OR v_swept.is_more;
    END IF;
    SELECT * INTO v_placed FROM ring_place(v_wakes, v_now, n.floor_at, n.floor_turn, n.tail_at, n.tail_xid IS NOT NULL, v_missing_id);
    IF v_due IS NOT NULL OR v_held IS NOT NULL OR v_placed.held IS NOT NULL THEN
        n.postponed_id := postpone(t, v_due, v_placed.held || v_held, v_placed.held_at, v_placed.held_id, v_now);
    END IF;
    IF cardinality(v_newer) = p_limit THEN
        SELECT w.xid, w.id INTO n.seen_xid, n.seen_id FROM unnest(v_newer) w ORDER BY w.xid DESC, w.id DESC LIMIT 1;
    ELSE
        n.seen_xid := pg_snapshot_xmax(v_snapshot);
        n.seen_id := 0;
    END IF;
    SELECT * INTO n.open_xids, n.open_ids FROM tick_open(t, n.seen_xid, v_snapshot, v_newer || v_late, p_limit);
    PERFORM tick_write(n);
    -- Where so much arrives at once, nobody has to be notified.
    IF cardinality(v_newer) >= 16 THEN
        PERFORM sleep_end();
    END IF;
    PERFORM lock_guard();
    RETURN v_is_more;
END $$;
