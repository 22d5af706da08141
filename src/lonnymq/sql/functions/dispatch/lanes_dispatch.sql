-- Part of dispatch: write messages that are not due yet to scheduled, apply changed policies, and dispatch each lane
-- under the limits of the channels and of the queue (p_max). p_hinted: channels to look at again. p_changed: channels
-- whose policy changed; '' is the queue itself. p_wanted: how many messages consumers asked for since the last
-- dispatch. p_is_behind: there are more notices than were read. Returns the new tick.
CREATE OR REPLACE FUNCTION lanes_dispatch (
    n tick, p_entries entry[], p_hinted TEXT[], p_changed TEXT[], p_wanted BIGINT, p_has_policies BOOLEAN, p_max INT,
    p_is_behind BOOLEAN, p_now BIGINT)
RETURNS tick LANGUAGE plpgsql AS $$
DECLARE
    v_due entry[] := p_entries;             -- the messages that are due
    v RECORD;                               -- a summary of p_entries
    v_entries entry[];                      -- the messages of one lane
    l lane_state;
    d RECORD;
    v_order INT[] := '{1}';                 -- in which order lanes are dispatched
    i INT;
BEGIN
    -- Messages that are not due go to scheduled, and new lanes are added. Most dispatches of a quiet queue skip this:
    -- they have no message to place, or one that is due.
    IF cardinality(p_entries) > 1 OR (p_entries[1]).at > p_now OR (p_entries[1]).lane <> (n.lanes[1]).name THEN
        SELECT array_agg(e) FILTER (WHERE e.at <= p_now) AS due, BOOL_OR(e.at > p_now) AS has_later,
            array_agg(DISTINCT e.lane) AS lanes
        INTO v FROM unnest(p_entries) e;
        v_due := v.due;
        IF v.has_later THEN
            n.due_to := LEAST(n.due_to, scheduled_add(p_entries, p_now));
        END IF;
        n.lanes := n.lanes || ARRAY(
            SELECT lane_new(e, 0) FROM unnest(v.lanes) e
            WHERE NOT EXISTS (SELECT FROM unnest(n.lanes) k WHERE k.name = e));
    END IF;
    -- Changed policies: all entries of these channels go back into their lines, and slots are listed again.
    IF p_changed IS NOT NULL THEN
        IF '' = ANY (p_changed) THEN        -- all of ready goes back, which frees slots of its channels
            p_changed := p_changed || ARRAY(SELECT DISTINCT r.channel FROM ready r);
            p_hinted := p_hinted || p_changed;
        END IF;
        FOREACH l IN ARRAY n.lanes LOOP
            PERFORM ready_reclaim(l, ARRAY( -- first what a rollback returned
                SELECT x.r FROM unnest(p_changed) c
                CROSS JOIN LATERAL (
                    SELECT r FROM ready r WHERE r.channel = c AND r.lane || '' = l.name AND r.tag >= l.floor
                        AND r.xmax <> '0' OFFSET 0) x));
            PERFORM ready_withdraw_channels(l, p_changed);
        END LOOP;
        DELETE FROM recent_tag c WHERE c.ctid = ANY (ARRAY(
            SELECT c.ctid FROM recent_tag c WHERE c.channel = ANY (p_changed) FOR UPDATE SKIP LOCKED));
        PERFORM slots_reset(p_changed, p_now);
    END IF;
    IF p_has_policies OR p_max IS NOT NULL THEN
        PERFORM slots_prune(p_hinted || ''::TEXT, p_hinted IS NOT NULL, p_is_behind, p_now);
        IF EXISTS (SELECT FROM alarm a WHERE a.at > p_now - 1 AND a.at <= p_now) THEN
            n.alarm_to := LEAST(n.alarm_to, p_now - 1); -- so that the next dispatch reads it
        END IF;
    END IF;
    IF n.locked_check_at <= p_now THEN
        n.locked_check_at := CASE WHEN ready_locked_check(n.lanes) THEN p_now + 1000 END;
    END IF;
    -- With several lanes: which ones come first, and which ones give up slots.
    IF cardinality(n.lanes) > 1 THEN
        SELECT y.lanes, p_hinted || NULLIF(y.channels, '{}') INTO n.lanes, p_hinted
        FROM lanes_free_slots(n.lanes, p_hinted, v_due, p_max, p_now) y;
        -- Lanes with consumers come first, starting with a different one each time, so that all get some of the room
        -- that a limit leaves.
        v_order := ARRAY(
            SELECT k.nth FROM generate_subscripts(n.lanes, 1) k (nth)
            ORDER BY lane_is_idle(n.lanes[k.nth], p_now),
                (k.nth + n.id) % cardinality(n.lanes));
    END IF;
    FOREACH i IN ARRAY v_order LOOP
        l := n.lanes[i];
        l.target := GREATEST(250, LEAST(4000, COALESCE(8 * p_wanted, 0)), l.target - l.target / 8);
        v_entries := v_due;
        IF cardinality(n.lanes) > 1 THEN
            SELECT array_agg(e) INTO v_entries FROM unnest(v_due) e WHERE e.lane = l.name;
        END IF;
        d := lane_dispatch(l, v_entries, p_hinted, p_max, p_has_policies, p_now);
        n.lanes[i] := d.lane;
        IF d.has_locked THEN
            n.locked_check_at := COALESCE(n.locked_check_at, p_now + 1000);
        END IF;
    END LOOP;
    RETURN n;
END $$;
