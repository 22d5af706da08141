-- The messages of a channel that wait or are leased, collected from every place where they can be, by one snapshot.
-- Locks nothing. It is a plain query, which the planner merges into the caller's: a caller that needs only some rows
-- reads only some.
CREATE OR REPLACE FUNCTION channel_messages (p_channel TEXT)
RETURNS TABLE (id BIGINT, is_counted BOOLEAN) LANGUAGE sql STABLE AS $$
    WITH lanes AS MATERIALIZED (
        SELECT n.name, n.floor FROM (SELECT * FROM tick ORDER BY id DESC LIMIT 1) t CROSS JOIN unnest(t.lanes) n)
    SELECT m.id, m.is_counted
    FROM (
        SELECT e.id, e.generation
        FROM lanes n
        CROSS JOIN LATERAL (
            SELECT b.ranges FROM backlog b WHERE b.channel = p_channel AND b.lane = n.name
            ORDER BY b.turn DESC LIMIT 1) b
        CROSS JOIN unnest(b.ranges) s
        CROSS JOIN LATERAL (
            SELECT * FROM line e
            WHERE e.channel = p_channel AND e.lane = n.name AND (e.rank, e.at, e.id) >= (s.lo_rank, s.lo_at, s.lo_id)
                AND (e.rank, e.at, e.id) <= (s.hi_rank, s.hi_at, s.hi_id) OFFSET 0) e
        UNION ALL
        SELECT r.id, r.generation
        FROM lanes n
        CROSS JOIN LATERAL (
            SELECT * FROM ready r WHERE r.channel = p_channel AND r.lane || '' = n.name AND r.tag >= n.floor OFFSET 0) r
        UNION ALL
        SELECT r.id, r.generation
        FROM ready_locked h
        CROSS JOIN LATERAL (
            SELECT * FROM ready r WHERE r.lane = h.lane AND r.tag = h.tag AND r.id = h.id OFFSET 0) r
        WHERE r.channel = p_channel
        UNION ALL
        SELECT s.id, s.generation FROM scheduled s WHERE s.channel = p_channel
        UNION ALL
        SELECT s.id, s.generation FROM lease l CROSS JOIN unnest(l.stubs) s) x
    CROSS JOIN LATERAL (
        SELECT m.id, m.channel, m.is_counted FROM message m
        WHERE m.id = x.id AND m.generation = x.generation OFFSET 0) m
    WHERE m.channel = p_channel
    UNION ALL
    SELECT m.id, m.is_counted FROM message_undispatched(NULL) m WHERE m.channel = p_channel
$$;
