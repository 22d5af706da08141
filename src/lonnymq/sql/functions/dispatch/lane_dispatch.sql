-- Part of a dispatch: one lane. Measure it, look again at the channels that were named, place what is new, and refill.
-- p_max: the limit over all channels; NULL: there is none.
CREATE OR REPLACE FUNCTION lane_dispatch (
    l lane_state, p_entries entry[], p_hinted TEXT[], p_max INT, p_has_policies BOOLEAN, p_now BIGINT,
    OUT lane lane_state, OUT is_held BOOLEAN)
LANGUAGE plpgsql AS $$
DECLARE
    c_end CONSTANT BIGINT := 9223372036854775807;
    m RECORD;
    r RECORD;
    v_is_refilled BOOLEAN;
    v_live INT;
    v_room INT;
    v_put INT := 0;
    v_is_blocked BOOLEAN := FALSE;
BEGIN
    m := lane_measure(l, p_now);
    lane := m.lane;
    is_held := m.is_held;
    IF p_hinted IS NOT NULL THEN
        PERFORM backlog_reopen(lane, p_hinted, p_has_policies, p_now);
        lane.horizon := LEAST(lane.horizon, line_first(lane));
    END IF;
    IF p_entries IS NOT NULL THEN
        IF lane.horizon = c_end THEN        -- there are no lines yet: a full ready makes them begin
            v_room := lane.target;
            IF lane.front IS NOT NULL THEN
                v_room := GREATEST(0, v_room - lane_live(lane));
            END IF;
        END IF;
        r := lane_place(lane, p_entries, v_room, slots_room(p_max), p_has_policies, p_now);
        lane.issued := GREATEST(lane.issued, r.issued);
        v_put := r.put;
        v_is_blocked := r.is_blocked;
    END IF;
    IF NOT m.has_lines AND p_hinted IS NULL AND v_put = COALESCE(cardinality(p_entries), 0) THEN
        lane.horizon := c_end;              -- there are no lines
        RETURN;
    END IF;
    v_is_refilled := lane.horizon = c_end OR lane_is_low(lane) OR p_hinted IS NOT NULL OR p_max IS NOT NULL
        OR v_is_blocked;
    IF v_is_refilled THEN
        v_live := lane_live(lane);
        v_room := LEAST(lane.target - v_live, slots_room(p_max));
        IF v_room > 0 THEN
            r := lane_refill(lane, v_room, p_has_policies, p_max IS NOT NULL, p_now);
            lane.issued := GREATEST(lane.issued, r.issued);
            v_live := v_live + r.put;
        END IF;
    END IF;
    -- A limit over all channels that is used up lets no line go on: what is in ready may be served, whatever its tag.
    lane.horizon := CASE WHEN slots_room(p_max) = 0 THEN c_end ELSE COALESCE(line_first(lane), c_end) END;
    IF v_is_refilled THEN
        IF v_live < (lane.target + 1) / 2 OR lane.horizon < l.horizon THEN
            v_live := lane_live(lane);      -- more can be served than before the refill, or less
        END IF;
        SELECT y.tag, y.id INTO lane.low_tag, lane.low_id FROM ready y -- NULL: it is low still
        WHERE y.lane = lane.name AND y.tag >= lane.floor AND y.xmax = '0' AND v_live >= (lane.target + 1) / 2
        ORDER BY y.tag, y.id OFFSET v_live / 2 LIMIT 1;
    ELSIF lane.horizon < l.horizon THEN
        lane.low_tag := NULL;               -- less can be served: the next dispatch counts it
    END IF;
    IF lane.v > l.v AND l.horizon < c_end THEN
        DELETE FROM recent c WHERE c.ctid = ANY (ARRAY(
            SELECT c.ctid FROM recent c WHERE c.lane = l.name AND c.tag + 0 >= l.v - 1000000000 AND c.tag + 0 < lane.v
            LIMIT 1000 FOR UPDATE SKIP LOCKED));
    END IF;
END $$;
