-- How a lane stands: how many entries of ready can be served (live), and its virtual time. An entry that nobody has
-- touched has no xmax. One that has is being taken, or was given back by a rollback: then it is replaced, and counts
-- again. While somebody holds one the floor stays below it, for a second; then it is listed in held, and the floor
-- goes on.
CREATE OR REPLACE FUNCTION lane_measure (l lane_state, p_now BIGINT, OUT lane lane_state, OUT live INT,
    OUT is_held BOOLEAN, OUT has_lines BOOLEAN)
LANGUAGE plpgsql AS $$
DECLARE
    v_free BIGINT;                          -- the lowest tag that can be served,
    v_line BIGINT;                          -- and of a line that may release
    v_touched ready[];
    v_held ready[];
    v_seen BIGINT;                          -- the last tag that was looked at, where there are more
BEGIN
    lane := l;
    SELECT COUNT(*) FILTER (WHERE x.is_free AND x.tag <= l.horizon), MIN(x.tag) FILTER (WHERE x.is_free),
        array_agg(x.r) FILTER (WHERE NOT x.is_free), CASE WHEN COUNT(*) = 2 * l.target THEN MAX(x.tag) END, (
            SELECT b.tag FROM backlog b WHERE b.is_open AND b.lane = l.name AND b.tag >= l.v
            ORDER BY b.lane, b.tag, b.turn LIMIT 1)
    INTO live, v_free, v_touched, v_seen, v_line
    FROM (
        SELECT r, r.tag, r.xmax = '0' AS is_free FROM ready r
        WHERE r.lane = l.name AND r.tag >= l.floor ORDER BY r.tag, r.id LIMIT 2 * l.target) x;
    lane.v := GREATEST(l.v, LEAST(v_free, v_seen, v_line, CASE WHEN v_line IS NULL THEN l.issued + 1 END));
    lane.floor := lane.v;
    lane.front := v_free;
    lane.served_at := CASE WHEN v_free > l.front OR v_free IS NULL AND l.front IS NOT NULL THEN p_now
        ELSE LEAST(p_now, l.served_at) END;
    is_held := FALSE;
    has_lines := v_line IS NOT NULL OR v_touched IS NOT NULL;
    IF v_touched IS NULL THEN
        lane.stuck_at := NULL;
        RETURN;
    END IF;
    v_held := ready_put_back(lane, v_touched);
    IF v_held IS NULL THEN
        lane.stuck_at := NULL;
    ELSIF l.stuck_at IS NULL OR p_now BETWEEN l.stuck_at - 1000 AND l.stuck_at + 1000 THEN
        lane.stuck_at := COALESCE(l.stuck_at, p_now);
        lane.floor := LEAST(lane.v, (SELECT MIN(h.tag) FROM unnest(v_held) h));
    ELSE
        INSERT INTO held (lane, tag, id, generation)
        SELECT h.lane, h.tag, h.id, h.generation FROM unnest(v_held) h ON CONFLICT DO NOTHING;
        lane.stuck_at := NULL;
        is_held := TRUE;
    END IF;
END $$;
