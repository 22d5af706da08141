-- Find the virtual time and the floor of a lane, and whether it has lines that may release. An entry of ready with xmax
-- = 0 was never locked. Otherwise a dequeue is taking it, or a dequeue that took it was rolled back; in the second case
-- the entry goes back into its line (ready_reclaim). While an open dequeue has entries, the floor stays below them for
-- one second; then they are listed in ready_locked and the floor moves on. Reads the first 100 entries, or all of them
-- if all of those 100 were locked.
CREATE OR REPLACE FUNCTION lane_measure (l lane_state, p_now BIGINT, OUT lane lane_state, OUT has_locked BOOLEAN,
    OUT has_lines BOOLEAN)
LANGUAGE plpgsql AS $$
DECLARE
    v_limit INT := 100;                     -- NULL: all entries
    v_free BIGINT;                          -- the lowest tag that can be served
    v_line BIGINT;                          -- the lowest tag of a line that may release
    v_low BIGINT;                           -- the lowest tag of an entry that is locked
    v_touched ready[];                      -- entries that are or were locked
    v_takers XID[];                         -- the transactions that locked them
    v_open XID[];                           -- those that were open in v_snapshot, or are now
    v_snapshot PG_SNAPSHOT;                 -- in which the entries were read
    v_locked ready[];                       -- entries that are locked
    v_rounds INT := 0;                      -- how often entries went back into their lines
BEGIN
    LOOP
        SELECT MIN(x.tag) FILTER (WHERE x.xmax = '0'), array_agg(x.r) FILTER (WHERE x.xmax <> '0'),
            array_agg(x.xmax) FILTER (WHERE x.xmax <> '0'), (SELECT pg_current_snapshot()), (
                SELECT b.tag FROM backlog b WHERE b.is_open AND b.lane = l.name AND b.tag >= l.v
                ORDER BY b.lane, b.tag, b.turn LIMIT 1)
        INTO v_free, v_touched, v_takers, v_snapshot, v_line
        FROM (
            SELECT CASE WHEN r.xmax <> '0' THEN r END AS r, r.tag, r.xmax FROM ready r
            WHERE r.lane = l.name AND r.tag >= l.floor ORDER BY r.tag, r.id LIMIT v_limit) x;
        v_locked := NULL;
        EXIT WHEN v_touched IS NULL;
        IF v_free IS NULL AND cardinality(v_touched) = v_limit THEN
            v_limit := NULL;
            CONTINUE;                       -- if this were the end, the floor would pass unread entries
        END IF;
        v_open := ARRAY(
            SELECT k.xmax FROM (SELECT DISTINCT y FROM unnest(v_takers) y) k (xmax)
            WHERE transaction_was_open(k.xmax, v_snapshot) OR transaction_is_open(k.xmax));
        v_locked := v_touched;                -- if none was rolled back
        EXIT WHEN v_takers <@ v_open;
        SELECT array_agg(x.r) FILTER (WHERE x.xmax = ANY (v_open))
            || ready_reclaim(l, array_agg(x.r) FILTER (WHERE x.xmax <> ALL (v_open)))
        INTO v_locked FROM (SELECT unnest(v_touched) AS r, unnest(v_takers) AS xmax) x;
        v_rounds := v_rounds + 1;
        EXIT WHEN v_rounds = 3 OR cardinality(v_locked) = cardinality(v_touched);
    END LOOP;
    IF v_touched IS NOT NULL THEN           -- what was rolled back may have a line now
        v_line := line_first_tag(l);
    END IF;
    lane := l;
    has_locked := v_locked IS NOT NULL AND p_now NOT BETWEEN l.stuck_at - 1000 AND l.stuck_at + 1000;
    has_locked := COALESCE(has_locked, FALSE);    -- stuck_at was NULL
    IF has_locked THEN
        INSERT INTO ready_locked (lane, tag, id, generation)
        SELECT h.lane, h.tag, h.id, h.generation FROM unnest(v_locked) h ON CONFLICT DO NOTHING;
        lane.stuck_at := NULL;
    ELSE
        lane.stuck_at := CASE WHEN v_locked IS NOT NULL THEN COALESCE(l.stuck_at, p_now) END;
        v_low := CASE WHEN v_locked IS NOT NULL THEN (SELECT MIN(h.tag) FROM unnest(v_locked) h) END;
    END IF;
    lane.v := GREATEST(l.v, LEAST(v_free, v_line, CASE WHEN v_line IS NULL THEN l.issued + 1 END));
    lane.floor := LEAST(lane.v, v_low);
    lane.horizon := LEAST(l.horizon, v_line);   -- this dispatch may have moved entries back into lines
    lane.front := v_free;
    lane.served_at := CASE WHEN v_free > l.front OR v_free IS NULL AND l.front IS NOT NULL THEN p_now
        WHEN l.served_at IS NOT NULL THEN LEAST(p_now, l.served_at) END;
    has_lines := v_line IS NOT NULL OR v_touched IS NOT NULL;
END $$;
