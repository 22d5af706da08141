-- The due messages of a channel, from ready and from its backlog, in the order (rank, at, id), from that position on.
-- p_lanes: the lanes of the tick. p_limit NULL: all.
CREATE OR REPLACE FUNCTION list_due (
    p_channel TEXT, p_lanes lane_state[], p_rank SMALLINT, p_at BIGINT, p_id BIGINT, p_limit INT)
RETURNS SETOF entry LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY
    SELECT x.id, x.generation, x.rank, x.at, x.cost, x.lane, x.channel
    FROM (
        SELECT i.id, i.generation, i.rank, i.at, i.cost, i.lane, i.channel
        FROM unnest(p_lanes) l
        CROSS JOIN LATERAL (
            SELECT b.ranges FROM backlog b WHERE b.channel = p_channel AND b.lane = l.name
            ORDER BY b.turn DESC LIMIT 1) b
        CROSS JOIN LATERAL unnest(b.ranges) s
        CROSS JOIN LATERAL (                -- start at the later position
            SELECT v.* FROM (VALUES (s.lo_rank, s.lo_at, s.lo_id), (p_rank, p_at, p_id)) v (rank, at, id)
            ORDER BY v.rank DESC, v.at DESC, v.id DESC LIMIT 1) f
        CROSS JOIN LATERAL (
            SELECT * FROM line i
            WHERE i.channel = p_channel AND i.lane = l.name
                AND (i.rank, i.at, i.id) >= (f.rank, f.at, f.id)
                AND (i.rank, i.at, i.id) <= (s.hi_rank, s.hi_at, s.hi_id)
                AND EXISTS (            -- it may be cancelled, and still in the backlog
                    SELECT FROM message m WHERE m.id = i.id AND m.generation = i.generation)
            ORDER BY i.channel, i.lane, i.rank, i.at, i.id LIMIT p_limit) i
        UNION ALL
        SELECT r.id, r.generation, r.rank, r.at, r.cost, r.lane, r.channel
        FROM unnest(p_lanes) l
        CROSS JOIN LATERAL (
            SELECT * FROM ready r
            WHERE r.channel = p_channel AND r.lane || '' = l.name AND r.tag >= l.floor
                AND (r.rank, r.at, r.id) >= (p_rank, p_at, p_id) OFFSET 0) r) x
    ORDER BY x.rank, x.at, x.id LIMIT p_limit;
END $$;
