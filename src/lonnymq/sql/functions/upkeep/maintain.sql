-- Clean up behind the engine: the ring rows of channels that have been quiet for an hour, wakes that are folded, dedupe keys that
-- are free again, what was staged a day ago, the history's old partitions; and make its new ones.
-- Consumers may call it at any time, and often: it waits for nobody, looks at 200 channels and cleans at most p_limit wakes a call,
-- and writes nothing when there is nothing to do. Its transaction must end within a few seconds (lock_guard). Returns how many rows went.
CREATE OR REPLACE FUNCTION maintain (p_limit INT DEFAULT 10000)
RETURNS BIGINT LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET plan_cache_mode TO force_generic_plan SET enable_seqscan TO off SET enable_bitmapscan TO off
SET enable_hashjoin TO off SET enable_mergejoin TO off SET enable_tidscan TO on SET jit TO off AS $$
DECLARE
    t tick;
    u upkeep;
    v_open XID8[];
    v_held XID8;
    v_from XID8;
    v_last XID8;
    v_wakes BIGINT := 0;
    v_next TEXT;
    v_quiet TEXT[];
    v_rings BIGINT := 0;
    v_now BIGINT := clock_ms();
    v_is_due BOOLEAN;
    v_is_rebuilt BOOLEAN := FALSE;          -- at this moment
    v_more BIGINT := 0;
BEGIN
    PERFORM isolation_check('maintain');
    PERFORM free_check('maintain');
    IF p_limit IS NULL OR p_limit NOT BETWEEN 1 AND 1000000 THEN
        PERFORM refuse('LM005', format('cleaning %s rows is not possible', COALESCE(p_limit::TEXT, 'NULL')), 'Clean 1 to 1,000,000 at a time.');
    END IF;
    SELECT * INTO t FROM tick ORDER BY id DESC LIMIT 1;
    SELECT * INTO u FROM upkeep;
    IF tick_is_foreign(t) THEN
        RETURN 0;                           -- the next fold will rebuild
    END IF;
    -- Transactions a fold has to come back to keep their wakes; what others wrote goes, also above them.
    SELECT array_agg(o.xid), MIN(o.xid) INTO v_open, v_held FROM unnest(t.open_xids, t.open_ids) o (xid, id)
    WHERE NOT pg_visible_in_snapshot(o.xid, pg_current_snapshot()) OR EXISTS (SELECT FROM wake w WHERE w.xid = o.xid AND w.id > o.id);
    v_from := CASE WHEN u.held_xid IS NOT DISTINCT FROM v_held THEN u.passed_xid ELSE u.cleaned_xid END;
    IF v_from > t.seen_xid THEN
        v_from := '0';                      -- from before a restore
    END IF;
    SELECT * INTO v_next, v_quiet FROM ring_quiet(u.next_channel, 200, v_now);
    v_is_due := upkeep_is_due(u, v_now);
    IF NOT EXISTS (SELECT FROM wake w WHERE w.xid >= v_from AND w.xid < t.seen_xid AND (w.xid <> ALL (v_open)) IS NOT FALSE)
        AND v_quiet IS NULL AND v_next IS NOT DISTINCT FROM u.next_channel AND NOT v_is_due
    THEN
        RETURN 0;
    END IF;
    PERFORM FROM upkeep FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;                           -- another one cleans
    END IF;
    IF v_quiet IS NOT NULL THEN
        BEGIN
            LOCK TABLE ring IN ROW EXCLUSIVE MODE NOWAIT;
            v_rings := ring_forget(t, v_quiet, v_now);
        EXCEPTION WHEN lock_not_available THEN
            v_is_rebuilt := TRUE;
        END;
    END IF;
    IF NOT v_is_rebuilt THEN
        WITH old AS MATERIALIZED (
            SELECT w.ctid AS tid FROM wake w WHERE w.xid >= v_from AND w.xid < t.seen_xid AND (w.xid <> ALL (v_open)) IS NOT FALSE
            ORDER BY w.xid, w.id LIMIT p_limit FOR UPDATE SKIP LOCKED),
        gone AS (
            DELETE FROM wake w USING old WHERE w.ctid = old.tid RETURNING w.xid)
        SELECT COUNT(*), MAX(xid) INTO v_wakes, v_last FROM gone;
        v_last := CASE WHEN v_wakes = p_limit THEN v_last ELSE t.seen_xid END;
        UPDATE upkeep SET next_channel = v_next, cleaned_xid = LEAST(v_last, v_held), passed_xid = v_last, held_xid = v_held;
    END IF;
    -- Last, because it may lock the history: finishers and readers then wait until the commit.
    IF v_is_due THEN
        v_more := upkeep_more(u, v_now, p_limit);
    END IF;
    PERFORM lock_guard();
    RETURN v_wakes + v_rings + v_more;
END $$;
