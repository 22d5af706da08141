-- Refill ready from the lines of a lane, lowest tag first, by up to p_room messages; nothing above the first tag that stays behind.
-- A line whose channel may not release is closed, until a notice or an alarm asks to look again. What somebody holds, such as an
-- open cancel, stays in its line and is a stretch of its own.
CREATE OR REPLACE FUNCTION lane_refill (
    l lane_state, p_room INT, p_has_policies BOOLEAN, p_is_limited BOOLEAN, p_now BIGINT, OUT put INT, OUT issued BIGINT)
LANGUAGE plpgsql AS $$
DECLARE
    v_lines backlog[];
    v_next BIGINT;                          -- the first tag of a line that is not looked at
    v_part INT;                             -- messages to read of each line; the last one is only looked at
BEGIN
    put := 0;
    SELECT array_agg(b.b ORDER BY (b.b).tag, (b.b).turn) INTO v_lines
    FROM (
        SELECT b FROM backlog b WHERE b.is_open AND b.lane = l.name AND b.tag >= l.v
        ORDER BY b.lane, b.tag, b.turn LIMIT p_room + 1) b;
    IF v_lines IS NULL THEN
        RETURN;
    ELSIF cardinality(v_lines) > p_room THEN
        v_next := (v_lines[p_room + 1]).tag;
        v_lines := v_lines[:p_room];
    END IF;
    v_part := (p_room + cardinality(v_lines) - 1) / cardinality(v_lines) + 1;
    SELECT k.put, k.issued INTO put, issued
    FROM lane_take(l.name, v_lines, v_part, v_next, p_room, p_has_policies, p_is_limited, p_now) k;
END $$;
