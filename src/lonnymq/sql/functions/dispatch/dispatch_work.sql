-- Part of dispatch, which holds the dispatch lock: place the messages that the notices name and those that are due,
-- then refill the lanes. t is the last tick, r the summary of the notices. Returns the new tick.
CREATE OR REPLACE FUNCTION dispatch_work (t tick, r notice_summary, p_notices notice[], p_now BIGINT, p_limit INT)
RETURNS tick LANGUAGE plpgsql AS $$
DECLARE
    n tick := tick_next(t, r, p_notices, p_now);
    v_changed TEXT[];                       -- channels whose policy has changed
    v_is_default BOOLEAN;                   -- the limits that channels inherit have changed
    v_entries entry[];                      -- messages to place
    x RECORD;
BEGIN
    -- The messages to place: created ones, those that came back, and those that a rescan finds.
    r.spans := t.spans || r.spans;
    IF r.spans <> '{}' THEN
        x := entries_created(r.spans, p_limit);
        v_entries := x.entries;
        n.spans := x.spans;
    END IF;
    IF r.has_back THEN
        v_entries := v_entries || entries_returned(p_notices, r.has_policies OR r.max IS NOT NULL, p_now);
    END IF;
    IF t.rescan_id IS NOT NULL THEN
        SELECT v_entries || k.entries, k.rescan_id INTO v_entries, n.rescan_id FROM entries_rescan(t, p_limit) k;
    END IF;
    IF p_now < t.at - 1000 THEN             -- the clock was set back: alarms are now far in the future
        UPDATE alarm SET at = p_now + 1000 WHERE at > p_now + 1000;
        UPDATE slots SET full_at_us = full_at_us - 1000 * (released_at - p_now), released_at = p_now
        WHERE released_at > p_now;
        n.alarm_to := LEAST(n.alarm_to, p_now);
        n.locked_check_at := LEAST(n.locked_check_at, p_now + 1000);
    END IF;
    -- What is due by now: scheduled messages, alarms, and leases that ran out.
    x := due_read(n, r, p_now, p_limit);
    n.due_to := x.due_to;
    n.alarm_to := x.alarm_to;
    n.swept_at := x.swept_at;
    n.lease_max_at := GREATEST(n.lease_max_at, x.kept_to);
    n.waiting := n.waiting + x.expired;
    v_entries := v_entries || x.entries;
    r.hinted := r.hinted || x.channels;
    -- Policies that changed.
    IF r.has_changes THEN
        WITH gone AS (
            DELETE FROM policy_change c WHERE c.ctid = ANY (ARRAY(
                SELECT c.ctid FROM policy_change c WHERE c.xid >= t.policy_xid
                ORDER BY c.xid, c.id LIMIT p_limit FOR UPDATE SKIP LOCKED))
            RETURNING c.channel, c.is_default)
        SELECT array_agg(DISTINCT g.channel), BOOL_OR(g.is_default) INTO v_changed, v_is_default FROM gone g;
        IF v_is_default THEN                -- every channel that has or may need slots
            v_changed := v_changed || slots_channels();
        END IF;
        r.hinted := r.hinted || v_changed;
        SELECT q.max_concurrency, -- again: the change may be newer
            COALESCE(q.channel_max_concurrency, q.channel_release_interval_us) IS NOT NULL
                OR EXISTS (SELECT FROM channel)
        INTO r.max, r.has_policies FROM queue q;
    ELSE
        n.policy_xid := GREATEST(t.policy_xid, pg_snapshot_xmin(r.snapshot)); -- open transactions may still change one
    END IF;
    IF r.has_asked THEN
        n.lanes := lanes_mark_served(n.lanes, p_notices, p_now);
    END IF;
    IF r.has_gone THEN
        PERFORM entries_remove(n.lanes, p_notices);
    END IF;
    IF r.has_policies AND r.wanted IS NOT NULL THEN
        r.hinted := r.hinted || slots_mark_released(p_notices, t.lanes, p_now);
    END IF;
    n := lanes_dispatch(n, v_entries, r.hinted, v_changed, r.wanted, r.has_policies, r.max, r.is_behind, p_now);
    -- Up to where notices are read: to the end of the snapshot, or to the last one that p_limit allowed.
    n.seen_xid := pg_snapshot_xmax(r.snapshot);
    n.seen_id := 0;
    IF r.n_newer >= p_limit THEN
        SELECT u.xid, u.id INTO n.seen_xid, n.seen_id FROM unnest(p_notices) u
        WHERE (u.xid, u.id) > (t.seen_xid, t.seen_id) ORDER BY u.xid DESC, u.id DESC LIMIT 1;
    END IF;
    n.open := tick_open_transactions(t, n.seen_xid, r.snapshot, p_notices, p_limit);
    RETURN tick_write(n);
END $$;
