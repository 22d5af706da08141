-- The names of the p_limit channels whose turn is next: first those with entries near the front of ready, then those
-- whose line may release. Each lane has its own tags, so they are compared by their distance from the lane's virtual
-- time.
CREATE OR REPLACE FUNCTION channel_next (p_limit INT)
RETURNS TEXT[] LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_lanes lane_state[] := (SELECT t.lanes FROM tick t ORDER BY t.id DESC LIMIT 1);
BEGIN
    RETURN ARRAY(
        SELECT y.channel
        FROM (
            SELECT DISTINCT ON (x.channel) x.*
            FROM (
                SELECT r.channel, FALSE AS is_line, r.tag - l.v AS ahead, r.id AS ord
                FROM unnest(v_lanes) l
                CROSS JOIN LATERAL (
                    SELECT r.channel, r.tag, r.id FROM ready r WHERE r.lane = l.name AND r.tag >= l.floor
                    ORDER BY r.tag, r.id LIMIT 20 * p_limit) r
                UNION ALL
                SELECT b.channel, TRUE, b.tag - l.v, b.turn
                FROM unnest(v_lanes) l
                CROSS JOIN LATERAL (
                    SELECT b.channel, b.tag, b.turn FROM backlog b
                    WHERE b.is_open AND b.lane = l.name AND b.tag >= l.v
                    ORDER BY b.tag, b.turn LIMIT p_limit) b) x
            ORDER BY x.channel, x.is_line, x.ahead, x.ord) y
        ORDER BY y.is_line, y.ahead, y.ord LIMIT p_limit);
END $$;
