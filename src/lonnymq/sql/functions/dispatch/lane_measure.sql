-- How a lane stands: its virtual time, and whether it has lines that may release. An entry that nobody has touched has
-- no xmax. One that has is being taken, or was given back by a rollback: then it goes back into its line. The floor
-- stays below what somebody holds, for a second; then that is listed in held, and the floor goes on. Looks at the first
-- entries alone; at all of them only if somebody has touched every one of these.
CREATE OR REPLACE FUNCTION lane_measure (l lane_state, p_now BIGINT, OUT lane lane_state, OUT is_held BOOLEAN,
    OUT has_lines BOOLEAN)
LANGUAGE plpgsql AS $$
DECLARE
    v_limit INT := 100;                     -- NULL: all of it
    v_free BIGINT;                          -- the lowest tag that can be served,
    v_line BIGINT;                          -- of a line that may release,
    v_low BIGINT;                           -- and of an entry that somebody holds
    v_touched ready[];
    v_takers XID[];                         -- the transactions that touched them
    v_open XID[];                           -- those of them that were open in v_snapshot, or are now
    v_snapshot PG_SNAPSHOT;                 -- in which the entries were read
    v_held ready[];
BEGIN
    FOR i IN 1 .. 3 LOOP
        SELECT MIN(x.tag) FILTER (WHERE x.xmax = '0'), array_agg(x.r) FILTER (WHERE x.xmax <> '0'),
            array_agg(x.xmax) FILTER (WHERE x.xmax <> '0'), (SELECT pg_current_snapshot()), (
                SELECT b.tag FROM backlog b WHERE b.is_open AND b.lane = l.name AND b.tag >= l.v
                ORDER BY b.lane, b.tag, b.turn LIMIT 1)
        INTO v_free, v_touched, v_takers, v_snapshot, v_line
        FROM (
            SELECT CASE WHEN r.xmax <> '0' THEN r END AS r, r.tag, r.xmax FROM ready r
            WHERE r.lane = l.name AND r.tag >= l.floor ORDER BY r.tag, r.id LIMIT v_limit) x;
        v_held := NULL;
        EXIT WHEN v_touched IS NULL;
        IF v_free IS NULL AND cardinality(v_touched) = v_limit THEN
            v_limit := NULL;
            CONTINUE;
        END IF;
        v_open := ARRAY(
            SELECT k.xmax FROM (SELECT DISTINCT y FROM unnest(v_takers) y) k (xmax)
            WHERE transaction_was_open(k.xmax, v_snapshot) OR transaction_is_open(k.xmax));
        v_held := v_touched;                -- if nothing was given back
        EXIT WHEN v_takers <@ v_open;
        SELECT array_agg(x.r) FILTER (WHERE x.xmax = ANY (v_open))
            || ready_put_back(l, array_agg(x.r) FILTER (WHERE x.xmax <> ALL (v_open)))
        INTO v_held FROM (SELECT unnest(v_touched) AS r, unnest(v_takers) AS xmax) x;
        EXIT WHEN cardinality(v_held) = cardinality(v_touched);
    END LOOP;
    IF v_touched IS NOT NULL THEN           -- what was given back may have a line now
        v_line := line_first(l);
    END IF;
    lane := l;
    is_held := v_held IS NOT NULL AND p_now NOT BETWEEN l.stuck_at - 1000 AND l.stuck_at + 1000;
    is_held := COALESCE(is_held, FALSE);    -- it was not stuck before
    IF is_held THEN
        INSERT INTO held (lane, tag, id, generation)
        SELECT h.lane, h.tag, h.id, h.generation FROM unnest(v_held) h ON CONFLICT DO NOTHING;
        lane.stuck_at := NULL;
    ELSE
        lane.stuck_at := CASE WHEN v_held IS NOT NULL THEN COALESCE(l.stuck_at, p_now) END;
        v_low := CASE WHEN v_held IS NOT NULL THEN (SELECT MIN(h.tag) FROM unnest(v_held) h) END;
    END IF;
    lane.v := GREATEST(l.v, LEAST(v_free, v_line, CASE WHEN v_line IS NULL THEN l.issued + 1 END));
    lane.floor := LEAST(lane.v, v_low);
    lane.horizon := LEAST(l.horizon, v_line);   -- this dispatch may have taken entries back into their lines
    lane.front := v_free;
    lane.served_at := CASE WHEN v_free > l.front OR v_free IS NULL AND l.front IS NOT NULL THEN p_now
        WHEN l.served_at IS NOT NULL THEN LEAST(p_now, l.served_at) END;
    has_lines := v_line IS NOT NULL OR v_touched IS NOT NULL;
END $$;
