-- Part of a fold that cannot go on from the tick, unless somebody folds at this moment. Nobody is held up, and the next folds do
-- the rest in pieces:
--   after a restore   transaction numbers begin anew, and every channel with waiting messages is found and woken from these
--   the clock set back   due times lie in a future that was: every channel that waits for one is looked at anew
-- Without a tick there is nothing to go by: rebuild, unless a dequeue is open; the next fold tries again.
CREATE OR REPLACE FUNCTION tick_renew ()
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    t tick;
    v_now BIGINT := clock_ms();
    v_snapshot PG_SNAPSHOT;
BEGIN
    PERFORM FROM fold_lock FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT * INTO t FROM tick ORDER BY id DESC LIMIT 1;
    IF t.id IS NULL THEN
        BEGIN
            LOCK TABLE ring IN EXCLUSIVE MODE NOWAIT;
            PERFORM rebuild();
        EXCEPTION WHEN lock_not_available THEN
            NULL;
        END;
        PERFORM lock_guard();
        RETURN;
    ELSIF tick_is_foreign(t) THEN
        v_snapshot := pg_current_snapshot();
        t.seen_xid := pg_snapshot_xmax(v_snapshot);
        t.seen_id := 0;
        SELECT COALESCE(array_agg(x), '{}'), COALESCE(array_agg(0), '{}') INTO t.open_xids, t.open_ids
        FROM (SELECT pg_current_xact_id() AS x UNION SELECT pg_snapshot_xip(v_snapshot)) o WHERE x < t.seen_xid;
        t.swept_at := 0;
        t.swept_id := 0;
        t.lease_max_at := COALESCE((SELECT MAX(lease_end_at) FROM message WHERE leased), 0);
        t.resume_channel := '';
        t.tail_xid := NULL;
        t.waiting := NULL;                  -- what was appended and not folded is not known
        t.started_at := pg_postmaster_start_time();
        t.system_id := (SELECT system_identifier FROM pg_control_system());
    ELSIF v_now >= t.at - 1000 THEN
        PERFORM lock_guard();
        RETURN;                             -- somebody else was here first
    END IF;
    IF v_now < t.at THEN
        UPDATE postponed SET due_at = v_now + pause_ms WHERE id >= t.postponed_id;
        t.at := v_now;
        t.postponed_to := v_now;
        t.review_at := v_now;
        t.review_turn := 0;
        t.swept_at := LEAST(t.swept_at, v_now); -- leases that were held when a sweep passed them run out again by the new clock
        t.swept_id := 0;
    END IF;
    t.floor_at := -9223372036854775808;
    PERFORM tick_write(t);
    PERFORM lock_guard();
END $$;
