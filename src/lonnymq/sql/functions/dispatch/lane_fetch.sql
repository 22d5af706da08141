-- Part of channels_dispatch, which holds the dispatch lock: move messages of these channels from their lines to ready,
-- until p_limit of them can be taken. p_max: the limit of the queue; NULL: none. If that is used up by entries that
-- nobody takes, because all consumers take from certain channels, those of other channels go back into their lines.
-- Returns the new state of the lane, and how many messages were moved.
CREATE OR REPLACE FUNCTION lane_fetch (
    l lane_state, p_channels TEXT[], p_limit INT, p_max INT, p_has_policies BOOLEAN, p_now BIGINT, OUT lane lane_state,
    OUT put INT)
LANGUAGE plpgsql AS $$
DECLARE
    c_end CONSTANT BIGINT := 9223372036854775807;
    v_first BIGINT;
    v_room INT;
    m RECORD;                               -- from lane_refill
BEGIN
    lane := l;
    put := 0;
    PERFORM ready_reclaim(l, ARRAY(         -- what a rollback returned
        SELECT x.r FROM unnest(p_channels) u (name)
        CROSS JOIN LATERAL (
            SELECT r FROM ready r WHERE r.channel = u.name AND r.lane || '' = l.name AND r.tag >= l.floor
                AND r.xmax <> '0' OFFSET 0) x));
    v_first := channels_first_tag(l, p_channels);
    IF v_first IS NOT NULL AND queue_room(p_max) = 0 AND lane_is_idle(l, p_now) THEN
        PERFORM ready_withdraw_channels(l, ARRAY(
            SELECT DISTINCT r.channel FROM ready r
            WHERE r.lane = l.name AND r.tag >= l.floor AND r.channel <> ALL (p_channels)));
    END IF;
    v_room := LEAST(queue_room(p_max), p_limit - (
        SELECT COUNT(*) FROM unnest(p_channels) u (name)
        CROSS JOIN LATERAL (
            SELECT FROM ready r WHERE r.channel = u.name AND r.lane || '' = l.name AND r.tag >= l.floor
                AND r.tag <= v_first AND r.xmax = '0' OFFSET 0) r));
    IF v_first IS NOT NULL AND v_room > 0 THEN
        m := lane_refill(l, v_room, p_has_policies, p_max IS NOT NULL, p_now, p_channels);
        lane.issued := GREATEST(l.issued, m.issued);
        put := m.put;
    END IF;
    lane.horizon := CASE WHEN queue_room(p_max) = 0 THEN c_end ELSE COALESCE(line_first_tag(l), c_end) END;
    IF lane.horizon < l.horizon THEN
        lane.low_tag := NULL;               -- the next dispatch counts what can be served
    END IF;
END $$;
