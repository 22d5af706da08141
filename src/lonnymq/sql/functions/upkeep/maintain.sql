-- Clean up behind the engine: notices that are read, dedupe keys that are free again, what was staged a day ago, the
-- history's old partitions; and make its new ones. Consumers may call it at any time, and often: it waits for nobody,
-- cleans at most p_limit notices a call, and writes nothing when there is nothing to do. Its transaction must end
-- within a few seconds (lock_guard). Returns how many rows went.
CREATE OR REPLACE FUNCTION maintain (p_limit INT DEFAULT 10000)
RETURNS BIGINT LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    t tick;
    u upkeep;
    v_open XID8[];
    v_held XID8;
    v_from XID8;
    v_last XID8;
    v_gone BIGINT := 0;
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
    SELECT * INTO u FROM upkeep;
    IF tick_is_foreign(t) THEN
        RETURN 0;                           -- the next dispatch sees to it
    END IF;
    -- Transactions a dispatch has to come back to keep their notices; what others wrote goes, also above them.
    SELECT array_agg(o.xid), MIN(o.xid) INTO v_open, v_held FROM unnest(t.open) o
    WHERE NOT pg_visible_in_snapshot(o.xid, pg_current_snapshot())
        OR EXISTS (SELECT FROM notice w WHERE w.xid = o.xid AND w.id > o.id);
    v_from := CASE WHEN u.held_xid IS NOT DISTINCT FROM v_held THEN u.passed_xid ELSE u.cleaned_xid END;
    IF v_from > t.seen_xid THEN
        v_from := '0';                      -- from before a restore
    END IF;
    v_is_due := upkeep_is_due(u, v_now);
    IF NOT v_is_due AND NOT EXISTS (
        SELECT FROM unnest(t.lanes) l
        CROSS JOIN LATERAL (SELECT FROM recent c WHERE c.lane = l.name AND c.tag + 0 < l.v LIMIT 1) c) AND NOT EXISTS (
        SELECT FROM notice w WHERE w.xid >= v_from AND w.xid < t.seen_xid AND (w.xid <> ALL (v_open)) IS NOT FALSE)
    THEN
        RETURN 0;
    END IF;
    PERFORM FROM upkeep FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;                           -- another one cleans
    END IF;
    WITH old AS MATERIALIZED (
        SELECT w.ctid AS tid FROM notice w
        WHERE w.xid >= v_from AND w.xid < t.seen_xid AND (w.xid <> ALL (v_open)) IS NOT FALSE
        ORDER BY w.xid, w.id LIMIT p_limit FOR UPDATE SKIP LOCKED),
    gone AS (
        DELETE FROM notice w WHERE w.ctid = ANY (ARRAY(SELECT old.tid FROM old)) RETURNING w.xid)
    SELECT COUNT(*), MAX(xid) INTO v_gone, v_last FROM gone;
    v_last := CASE WHEN v_gone = p_limit THEN v_last ELSE t.seen_xid END;
    UPDATE upkeep SET cleaned_xid = LEAST(v_last, v_held), passed_xid = v_last, held_xid = v_held;
    DELETE FROM recent c WHERE c.ctid = ANY (ARRAY(
        SELECT x.tid FROM unnest(t.lanes) l
        CROSS JOIN LATERAL (
            SELECT c.ctid AS tid FROM recent c WHERE c.lane = l.name AND c.tag + 0 < l.v
                LIMIT p_limit FOR UPDATE SKIP LOCKED) x));
    DELETE FROM backlog b WHERE b.ctid = ANY (ARRAY( -- of lines that ended long ago
        SELECT b.ctid FROM backlog b
        WHERE b.stretches = '{}' AND b.turn < (SELECT s.last_value FROM turn s) - 100000
        ORDER BY b.turn LIMIT p_limit FOR UPDATE SKIP LOCKED));
    -- Last, because it may lock the history: finishers and readers then wait until the commit.
    IF v_is_due THEN
        v_gone := v_gone + upkeep_more(u, v_now, p_limit);
    END IF;
    PERFORM lock_guard();
    RETURN v_gone;
END $$;
