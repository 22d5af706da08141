-- Delete what the engine no longer needs: notices that were read, dedupe keys that are free again, results whose time
-- is over, rows that were staged a day ago and not published, batches that finished long ago, old rows of audit and of
-- policies, old partitions of the history; and create new partitions. Consumers may call it at any time and often: it
-- waits for no one, deletes at most p_limit notices per call, and writes nothing if there is nothing to do. Its
-- transaction must end within a few seconds (lock_guard). Returns how many rows were deleted.
CREATE OR REPLACE FUNCTION maintain (p_limit INT DEFAULT 10000)
RETURNS BIGINT LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    t tick;
    u maintenance;
    v_open XID8[];
    v_open_min XID8;
    v_from XID8;
    v_last XID8;
    v_deleted BIGINT := 0;
    v_now BIGINT := clock_ms();
    v_is_due BOOLEAN;
BEGIN
    PERFORM isolation_check('maintain');
    PERFORM unbound_check('maintain');
    IF p_limit IS NULL OR p_limit NOT BETWEEN 1 AND 1000000 THEN
        PERFORM refuse('LM005', format('cleaning %s rows is not possible', COALESCE(p_limit::TEXT, 'NULL')),
            'Clean 1 to 1,000,000 at a time.');
    END IF;
    SELECT * INTO t FROM tick ORDER BY id DESC LIMIT 1;
    SELECT * INTO u FROM maintenance;
    IF tick_is_unusable(t) THEN
        RETURN 0;                           -- the next dispatch handles it
    END IF;
    -- Notices of transactions that a dispatch must come back to are kept; those of later ones may be deleted.
    SELECT array_agg(o.xid), MIN(o.xid) INTO v_open, v_open_min FROM unnest(t.open) o
    WHERE NOT pg_visible_in_snapshot(o.xid, pg_current_snapshot())
        OR EXISTS (SELECT FROM notice w WHERE w.xid = o.xid AND w.id > o.id);
    v_from := CASE WHEN u.open_xid IS NOT DISTINCT FROM v_open_min THEN u.passed_xid ELSE u.cleaned_xid END;
    IF v_from > t.seen_xid THEN
        v_from := '0';                      -- from before a restore
    END IF;
    v_is_due := maintenance_is_due(u, v_now);
    IF NOT v_is_due AND NOT EXISTS (
        SELECT FROM unnest(t.lanes) l
        CROSS JOIN LATERAL (SELECT FROM recent_tag c WHERE c.lane = l.name AND c.tag + 0 < l.v LIMIT 1) c)
        AND NOT EXISTS (
        SELECT FROM notice w WHERE w.xid >= v_from AND w.xid < t.seen_xid AND (w.xid <> ALL (v_open)) IS NOT FALSE)
    THEN
        RETURN 0;
    END IF;
    PERFORM FROM maintenance FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;                           -- another session does it
    END IF;
    WITH old AS MATERIALIZED (
        SELECT w.ctid AS tid FROM notice w
        WHERE w.xid >= v_from AND w.xid < t.seen_xid AND (w.xid <> ALL (v_open)) IS NOT FALSE
        ORDER BY w.xid, w.id LIMIT p_limit FOR UPDATE SKIP LOCKED),
    gone AS (
        DELETE FROM notice w WHERE w.ctid = ANY (ARRAY(SELECT old.tid FROM old)) RETURNING w.xid)
    SELECT COUNT(*), MAX(xid) INTO v_deleted, v_last FROM gone;
    v_last := CASE WHEN v_deleted = p_limit THEN v_last ELSE t.seen_xid END;
    UPDATE maintenance SET cleaned_xid = LEAST(v_last, v_open_min), passed_xid = v_last, open_xid = v_open_min;
    DELETE FROM recent_tag c WHERE c.ctid = ANY (ARRAY(
        SELECT x.tid FROM unnest(t.lanes) l
        CROSS JOIN LATERAL (
            SELECT c.ctid AS tid FROM recent_tag c WHERE c.lane = l.name AND c.tag + 0 < l.v
                LIMIT p_limit FOR UPDATE SKIP LOCKED) x));
    DELETE FROM backlog b WHERE b.ctid = ANY (ARRAY( -- of lines that were emptied long ago
        SELECT b.ctid FROM backlog b
        WHERE b.ranges = '{}' AND b.turn < (SELECT s.last_value FROM turn s) - 100000
        ORDER BY b.turn LIMIT p_limit FOR UPDATE SKIP LOCKED));
    -- This comes last, because it may lock the history, and finishers and readers then wait until the commit.
    IF v_is_due THEN
        v_deleted := v_deleted + maintenance_run(u, v_now, p_limit);
    END IF;
    PERFORM lock_guard();
    RETURN v_deleted;
END $$;
