-- Part of a dispatch, for who holds the dispatch lock: place what the notices tell of and what is due, and refill the lanes.
-- Returns the new tick.
CREATE OR REPLACE FUNCTION dispatch_work (
    t tick, p_snapshot PG_SNAPSHOT, p_newer notice[], p_late notice[], p_now BIGINT, p_limit INT)
RETURNS tick LANGUAGE plpgsql AS $$
DECLARE
    q queue;
    v_has_policies BOOLEAN;
    v_changed TEXT[];                       -- channels whose policy has changed
    n tick := tick_count(t, p_newer || p_late, p_now);
    w RECORD;                               -- what the notices tell
    v_entries entry[];                      -- what is to be placed
    v_back entry[];
    d RECORD;                               -- what is due
    x RECORD;
BEGIN
    SELECT t.spans || array_agg(ROW(u.xid, u.lo_id, u.hi_id)::span) FILTER (WHERE u.lo_id IS NOT NULL) AS spans,
        ARRAY(SELECT b FROM unnest(p_newer || p_late) v CROSS JOIN unnest(v.back) b WHERE v.at IS NULL) AS back,
        array_agg(DISTINCT u.channel) FILTER (WHERE u.channel IS NOT NULL) AS hinted, SUM(u.wanted) AS wanted,
        COALESCE(BOOL_OR(u.back IS NOT NULL AND u.at IS NOT NULL), FALSE) AS has_held
    INTO w FROM unnest(p_newer || p_late) u;
    IF EXISTS (SELECT FROM policy_change) THEN
        WITH gone AS (
            DELETE FROM policy_change c WHERE c.ctid = ANY (ARRAY(SELECT c.ctid FROM policy_change c FOR UPDATE SKIP LOCKED))
            RETURNING c.channel)
        SELECT array_agg(DISTINCT g.channel) INTO v_changed FROM gone g;
        w.hinted := w.hinted || v_changed;
    END IF;
    SELECT * INTO q FROM queue;             -- after that, so that it has what changed
    v_has_policies := EXISTS (SELECT FROM channel);
    IF w.spans <> '{}' THEN
        SELECT * INTO x FROM entries_created(w.spans, p_limit);
        n.spans := x.spans;
        v_entries := x.entries;
    END IF;
    IF w.back <> '{}' THEN
        v_back := entries_back(w.back);
        v_entries := v_entries || v_back;
        IF v_has_policies OR q.max_concurrency IS NOT NULL THEN
            -- One that a dequeue could not lock has its generation still, and a slot.
            PERFORM slots_leave(ARRAY(
                SELECT ROW(e.lane, 0, e.id, e.generation, e.rank, e.at, e.cost, TRUE, e.channel)::ready FROM unnest(v_back) e));
        END IF;
    END IF;
    IF t.walk_id IS NOT NULL THEN
        SELECT * INTO x FROM entries_walk(t, p_limit);
        n.walk_id := x.walk_id;
        v_entries := v_entries || x.entries;
    END IF;
    IF w.has_held THEN
        INSERT INTO alarm (at, back)
        SELECT v.at, b FROM unnest(p_newer || p_late) v CROSS JOIN unnest(v.back) b WHERE v.at IS NOT NULL;
    END IF;
    SELECT EXISTS (SELECT FROM scheduled s WHERE s.at > n.due_to AND s.at <= p_now) AS has_scheduled,
        EXISTS (SELECT FROM alarm a WHERE a.at > n.alarm_to AND a.at <= p_now) AS has_alarms,
        EXISTS (SELECT FROM lease l WHERE l.end_at > n.swept_at AND l.end_at <= p_now) AS has_leases
    INTO d;
    IF d.has_scheduled THEN
        SELECT * INTO x FROM entries_due(n.due_to, p_now, p_limit);
        n.due_to := x.due_to;
        v_entries := v_entries || x.entries;
    ELSE
        n.due_to := GREATEST(n.due_to, p_now);
    END IF;
    IF d.has_alarms THEN
        SELECT * INTO x FROM alarms_read(n.alarm_to, p_now, p_limit);
        n.alarm_to := x.alarm_to;
        d.has_leases := d.has_leases OR x.lease_from IS NOT NULL;
        n.swept_at := LEAST(n.swept_at, x.lease_from);
        v_entries := v_entries || x.entries;
        w.hinted := w.hinted || x.channels;
    ELSE
        n.alarm_to := p_now;                -- none of those to come is for before
    END IF;
    IF d.has_leases THEN
        SELECT * INTO x FROM leases_sweep(n.swept_at, p_now, p_limit);
        n.swept_at := x.swept_at;
        n.lease_max_at := GREATEST(n.lease_max_at, x.kept_to);
        n.waiting := n.waiting + COALESCE(cardinality(x.entries), 0);
        v_entries := v_entries || x.entries;
        w.hinted := w.hinted || x.freed;
    ELSE
        n.swept_at := GREATEST(n.swept_at, p_now);
    END IF;
    IF v_entries IS NOT NULL THEN
        n.due_to := LEAST(n.due_to, scheduled_add(v_entries, p_now));
    END IF;
    IF w.hinted IS NOT NULL THEN
        PERFORM backlog_shrink(p_newer || p_late);
    END IF;
    IF v_has_policies THEN
        w.hinted := w.hinted || slots_released(p_newer || p_late);
    END IF;
    n := lanes_dispatch(n, v_entries, w.hinted, v_changed, w.wanted, v_has_policies, q.max_concurrency, p_now);
    n.seen_xid := pg_snapshot_xmax(p_snapshot);
    n.seen_id := 0;
    IF cardinality(p_newer) >= p_limit THEN
        SELECT u.xid, u.id INTO n.seen_xid, n.seen_id FROM unnest(p_newer) u ORDER BY u.xid DESC, u.id DESC LIMIT 1;
    END IF;
    n.open := tick_open(t, n.seen_xid, p_snapshot, p_newer || p_late, p_limit);
    RETURN tick_write(n);
END $$;
