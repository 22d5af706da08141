-- The lanes in which a channel has due messages, by name: how many (due), since when the next of them is due
-- (since_at), the state of the lane, whether none of them is dispatched yet (is_unread), and the place of the next one
-- in the order: its tag, and its id if it is in ready (entry_id). due is exact, but of the messages that are not
-- dispatched yet, 10,000 of all channels are counted, and 1,000 of the channel whose time came since the last dispatch.
CREATE OR REPLACE FUNCTION channel_lanes (p_channel TEXT, p_tick tick, p_now BIGINT)
RETURNS TABLE (name TEXT, state lane_state, due BIGINT, since_at BIGINT, is_unread BOOLEAN, tag BIGINT,
    entry_id BIGINT)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH unread AS MATERIALIZED (           -- not dispatched yet
        SELECT u.lane, COUNT(*) AS n, MIN(u.since_at) AS since_at
        FROM (
            SELECT m.lane, GREATEST(m.dequeue_at, m.created_at) AS since_at FROM message_undispatched(10000) m
            WHERE m.channel = p_channel AND m.dequeue_at <= p_now
            UNION ALL
            SELECT s.lane, s.at FROM (
                SELECT s.lane, s.at FROM scheduled s
                WHERE s.channel = p_channel AND s.at > p_tick.due_to AND s.at <= p_now
                ORDER BY s.channel, s.at, s.id LIMIT 1000) s) u
        GROUP BY u.lane),
    void AS MATERIALIZED (SELECT v.lane, v.n FROM removals_pending(ARRAY[p_channel]) v),
    below AS MATERIALIZED (                 -- entries of ready below the floor
        SELECT h.lane, COUNT(*) AS n FROM ready_locked h
        CROSS JOIN LATERAL (
            SELECT r.channel FROM ready r WHERE r.lane = h.lane AND r.tag = h.tag AND r.id = h.id OFFSET 0) r
        WHERE r.channel = p_channel GROUP BY h.lane),
    found AS MATERIALIZED (
        SELECT n.name, l AS state, COALESCE(u.n, 0) + COALESCE(b.n, 0) + c.n
                + COALESCE((SELECT h.n FROM below h WHERE h.lane = n.name), 0)
                - COALESCE((SELECT v.n FROM void v WHERE v.lane = n.name), 0) AS due,
            COALESCE(r.tag, CASE WHEN b.n > 0 THEN GREATEST(b.tag, l.v) END) AS tag, r.id AS entry_id, b.ranges,
            u.since_at
        FROM (SELECT l.name FROM unnest(p_tick.lanes) l UNION SELECT u.lane FROM unread u) n
        LEFT JOIN unnest(p_tick.lanes) l ON l.name = n.name
        LEFT JOIN unread u ON u.lane = n.name
        LEFT JOIN LATERAL (SELECT * FROM backlog_live(p_channel, n.name) b WHERE b.ranges <> '{}') b ON TRUE
        LEFT JOIN LATERAL (
            SELECT r.tag, r.id FROM ready r
            WHERE r.channel = p_channel AND r.lane || '' = l.name AND r.tag >= l.floor AND r.xmax = '0'
            ORDER BY r.channel, r.tag, r.id LIMIT 1) r ON TRUE
        CROSS JOIN LATERAL (
            SELECT COUNT(*) AS n FROM ready r
            WHERE r.channel = p_channel AND r.lane || '' = l.name AND r.tag >= l.floor) c)
    SELECT f.name, f.state, f.due, COALESCE(m.since_at, f.since_at), f.tag IS NULL AND f.since_at IS NOT NULL,
        f.tag, f.entry_id
    FROM found f
    LEFT JOIN LATERAL (
        SELECT e.id FROM line e
        WHERE f.entry_id IS NULL AND e.channel = p_channel AND e.lane = f.name
            AND (e.rank, e.at, e.id) >= ((f.ranges[1]).lo_rank, (f.ranges[1]).lo_at, (f.ranges[1]).lo_id)
        ORDER BY e.channel, e.lane, e.rank, e.at, e.id LIMIT 1) e ON TRUE
    LEFT JOIN LATERAL (
        SELECT GREATEST(m.dequeue_at, m.created_at) AS since_at FROM message m
        WHERE m.id = COALESCE(f.entry_id, e.id) OFFSET 0) m ON TRUE
    WHERE f.due > 0
    ORDER BY f.name COLLATE "C";
END $$;
