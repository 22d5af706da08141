-- Part of dispatch: one lane. Measure it, reopen the lines of the channels in p_hinted, place the new messages, and
-- refill ready if it runs low. p_max: the limit of the queue; NULL: none. Returns the new state of the lane, and
-- whether entries were added to ready_locked.
CREATE OR REPLACE FUNCTION lane_dispatch (
    l lane_state, p_entries entry[], p_hinted TEXT[], p_max INT, p_has_policies BOOLEAN, p_now BIGINT,
    OUT lane lane_state, OUT has_locked BOOLEAN)
LANGUAGE plpgsql AS $$
DECLARE
    c_end CONSTANT BIGINT := 9223372036854775807;
    m RECORD;                               -- from lane_measure
    r RECORD;                               -- from lane_place, lane_refill
    v_is_refilled BOOLEAN;
    v_count INT;                            -- how many entries of ready can be served
    v_room INT;                             -- how many more may be put into ready
    v_put INT := 0;                         -- how many messages were put into ready directly
    v_is_blocked BOOLEAN := FALSE;          -- limits kept some out of ready
BEGIN
    m := lane_measure(l, p_now);
    lane := m.lane;
    has_locked := m.has_locked;
    IF p_hinted IS NOT NULL THEN
        PERFORM backlog_reopen(lane, p_hinted, p_has_policies, p_now);
        lane.horizon := LEAST(lane.horizon, line_first_tag(lane));
    END IF;
    IF p_entries IS NOT NULL THEN
        IF lane.horizon = c_end THEN        -- there are no lines: what ready has no room for starts one
            v_room := lane.target;
            IF lane.front IS NOT NULL THEN
                v_room := GREATEST(0, v_room - ready_count(lane));
            END IF;
        END IF;
        r := lane_place(lane, p_entries, v_room, queue_room(p_max), p_has_policies, p_now);
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
        v_count := ready_count(lane);
        v_room := LEAST(lane.target - v_count, queue_room(p_max));
        IF v_room > 0 THEN
            r := lane_refill(lane, v_room, p_has_policies, p_max IS NOT NULL, p_now);
            lane.issued := GREATEST(lane.issued, r.issued);
            v_count := v_count + r.put;
        END IF;
    END IF;
    -- If the limit of the queue is used up, no line may release, so all of ready may be served, whatever its tag.
    lane.horizon := CASE WHEN queue_room(p_max) = 0 THEN c_end ELSE COALESCE(line_first_tag(lane), c_end) END;
    IF v_is_refilled THEN
        IF v_count < (lane.target + 1) / 2 OR lane.horizon < l.horizon THEN
            v_count := ready_count(lane);   -- the horizon has moved
        END IF;
        -- The entry in the middle: once it is taken, ready is low. NULL: it is low now.
        SELECT y.tag, y.id INTO lane.low_tag, lane.low_id FROM ready y
        WHERE y.lane = lane.name AND y.tag >= lane.floor AND y.xmax = '0' AND v_count >= (lane.target + 1) / 2
        ORDER BY y.tag, y.id OFFSET v_count / 2 LIMIT 1;
    ELSIF lane.horizon < l.horizon THEN
        lane.low_tag := NULL;               -- the next dispatch counts what can be served
    END IF;
    -- Tags that virtual time has passed are of no use any more.
    IF lane.v > l.v AND l.horizon < c_end THEN
        DELETE FROM recent_tag c WHERE c.ctid = ANY (ARRAY(
            SELECT c.ctid FROM recent_tag c
            WHERE c.lane = l.name AND c.tag + 0 >= l.v - 1000000000 AND c.tag + 0 < lane.v
            LIMIT 1000 FOR UPDATE SKIP LOCKED));
    END IF;
END $$;
