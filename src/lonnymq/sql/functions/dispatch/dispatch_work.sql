-- Part of a dispatch, for who holds the dispatch lock: place what the notices tell of and what is due, and refill the
-- lanes. Returns the new tick.
CREATE OR REPLACE FUNCTION dispatch_work (
    t tick, p_snapshot PG_SNAPSHOT, p_newer notice[], p_late notice[], p_now BIGINT, p_limit INT)
RETURNS tick LANGUAGE plpgsql AS $$
DECLARE
    v_notices notice[] := p_newer || p_late;
    n tick := tick_count(t, v_notices, p_now);
    w RECORD;                               -- what the notices tell, and what there is
    v_changed TEXT[];                       -- channels whose policy has changed
    v_entries entry[];                      -- what is to be placed
    x RECORD;
BEGIN
    SELECT t.spans || array_agg(ROW(u.xid, u.lo_id, u.hi_id)::span) FILTER (WHERE u.lo_id IS NOT NULL) AS spans,
        array_agg(DISTINCT u.channel) FILTER (WHERE u.channel IS NOT NULL) AS hinted, SUM(u.wanted) AS wanted,
        COALESCE(BOOL_OR(u.back IS NOT NULL), FALSE) AS has_back, BOOL_OR(u.asked IS NOT NULL) AS has_asked,
        COALESCE(BOOL_OR(u.gone IS NOT NULL), FALSE) AS has_gone,
        (SELECT q.max_concurrency FROM queue q) AS max, EXISTS (SELECT FROM channel) AS has_policies,
        EXISTS (SELECT FROM policy_change c WHERE c.xid >= t.policy_xid) AS has_changes
    INTO w FROM unnest(v_notices) u;
    IF w.spans <> '{}' THEN
        SELECT c.entries, c.spans INTO v_entries, n.spans FROM entries_created(w.spans, p_limit) c;
    END IF;
    IF w.has_back THEN
        v_entries := v_entries || back_read(v_notices, w.has_policies OR w.max IS NOT NULL, p_now);
    END IF;
    IF t.walk_id IS NOT NULL THEN
        SELECT v_entries || k.entries, k.walk_id INTO v_entries, n.walk_id FROM entries_walk(t, p_limit) k;
    END IF;
    IF p_now < t.at - 1000 THEN             -- the clock was set back, and alarms are for a time that is far now
        UPDATE alarm SET at = p_now + 1000 WHERE at > p_now + 1000;
        UPDATE slots SET released_at = p_now WHERE released_at > p_now;
        n.alarm_to := LEAST(n.alarm_to, p_now);
        n.held_at := LEAST(n.held_at, p_now + 1000);
    END IF;
    SELECT * INTO x FROM due_read(n, p_now, p_limit);
    n.due_to := x.due_to;
    n.alarm_to := x.alarm_to;
    n.swept_at := x.swept_at;
    n.lease_max_at := GREATEST(n.lease_max_at, x.kept_to);
    n.waiting := n.waiting + x.expired;
    v_entries := v_entries || x.entries;
    w.hinted := w.hinted || x.channels;
    IF w.has_changes THEN
        WITH gone AS (
            DELETE FROM policy_change c WHERE c.ctid = ANY (ARRAY(
                SELECT c.ctid FROM policy_change c WHERE c.xid >= t.policy_xid
                ORDER BY c.xid, c.id LIMIT p_limit FOR UPDATE SKIP LOCKED))
            RETURNING c.channel)
        SELECT array_agg(DISTINCT g.channel) INTO v_changed FROM gone g;
        w.hinted := w.hinted || v_changed;
        w.max := (SELECT q.max_concurrency FROM queue q); -- again, so that they have what changed
        w.has_policies := EXISTS (SELECT FROM channel);
    ELSE
        n.policy_xid := GREATEST(t.policy_xid, pg_snapshot_xmin(p_snapshot)); -- whoever is open may still change one
    END IF;
    IF w.has_asked THEN
        n.lanes := lanes_asked(n.lanes, v_notices, p_now);
    END IF;
    IF w.has_gone THEN
        PERFORM line_leave(n.lanes, v_notices);
    END IF;
    IF w.has_policies AND w.wanted IS NOT NULL THEN
        w.hinted := w.hinted || slots_released(v_notices, p_now);
    END IF;
    n := lanes_dispatch(n, v_entries, w.hinted, v_changed, w.wanted, w.has_policies, w.max,
        GREATEST(cardinality(p_newer), cardinality(p_late)) >= p_limit, p_now);
    n.seen_xid := pg_snapshot_xmax(p_snapshot);
    n.seen_id := 0;
    IF cardinality(p_newer) >= p_limit THEN
        SELECT u.xid, u.id INTO n.seen_xid, n.seen_id FROM unnest(p_newer) u ORDER BY u.xid DESC, u.id DESC LIMIT 1;
    END IF;
    n.open := tick_open(t, n.seen_xid, p_snapshot, v_notices, p_limit);
    RETURN tick_write(n);
END $$;
