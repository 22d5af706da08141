-- Since when the oldest message is due, among the next 1,000 entries of ready and the heads of the next 1,000 lines of
-- each lane, and the first 1,000 messages that are not dispatched yet. Of these, the 100 with the lowest times are
-- looked up. Urgent ones come last, because their time does not say when they were created.
CREATE OR REPLACE FUNCTION oldest_due_at (p_lanes lane_state[])
RETURNS BIGINT LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN LEAST((
        SELECT MIN(GREATEST(m.dequeue_at, m.created_at)) FROM message_undispatched(1000) m
            WHERE m.dequeue_at <= clock_ms()), (
        SELECT MIN(GREATEST(m.dequeue_at, m.created_at))
        FROM (
            SELECT x.id
            FROM (
                SELECT r.id, r.at FROM unnest(p_lanes) l
                CROSS JOIN LATERAL (
                    SELECT r.id, r.at FROM ready r WHERE r.lane = l.name AND r.tag >= l.floor
                    ORDER BY r.tag, r.id LIMIT 1000) r
                UNION ALL
                SELECT i.id, i.at FROM unnest(p_lanes) l
                CROSS JOIN LATERAL (
                    SELECT b.channel, b.ranges FROM backlog b
                    WHERE b.is_open AND b.lane = l.name AND b.tag >= l.v
                    ORDER BY b.tag, b.turn LIMIT 1000) b
                CROSS JOIN LATERAL unnest(b.ranges) s
                CROSS JOIN LATERAL (
                    SELECT i.id, i.at FROM line i
                    WHERE i.channel = b.channel AND i.lane = l.name
                        AND (i.rank, i.at, i.id) >= (s.lo_rank, s.lo_at, s.lo_id)
                    ORDER BY i.channel, i.lane, i.rank, i.at, i.id LIMIT 1) i) x
            ORDER BY x.at <= 0, x.at LIMIT 100) y
        CROSS JOIN LATERAL (SELECT m.dequeue_at, m.created_at FROM message m WHERE m.id = y.id OFFSET 0) m));
END $$;
