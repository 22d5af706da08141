-- About how many messages of all channels a lane serves before the one with this tag. p_id: its id if it is in ready;
-- NULL: it is the next of its line. Counts up to 10,000 entries of ready, and estimates how many messages the 1,000
-- lines with the lowest tags have before that tag, as if each message had a cost of 1. 0: the message is next.
CREATE OR REPLACE FUNCTION lane_ahead (l lane_state, p_tag BIGINT, p_id BIGINT)
RETURNS BIGINT LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT COUNT(*) FROM (
            SELECT FROM ready r
            WHERE r.lane = l.name AND r.tag >= l.floor AND r.xmax = '0'
                AND (r.tag, r.id) < (p_tag, COALESCE(p_id, 9223372036854775807))
            ORDER BY r.tag, r.id LIMIT 10000) x)
        + COALESCE((
            SELECT SUM(LEAST(b.n, ceil((p_tag - b.tag) / weight_step(c.weight))))::BIGINT
            FROM (
                SELECT b.channel, b.tag, b.n FROM backlog b
                WHERE b.is_open AND b.lane = l.name AND b.tag >= l.v AND b.tag < p_tag
                ORDER BY b.lane, b.tag, b.turn LIMIT 1000) b
            LEFT JOIN LATERAL (SELECT c.weight FROM channel c WHERE c.name = b.channel OFFSET 0) c ON TRUE), 0);
END $$;
