-- Waiting messages that are neither in their channel's backlog nor visible in ready: messages whose notice is not
-- dispatched yet (up to p_limit of all channels); messages that became due since the last dispatch and are still in
-- scheduled; and entries of ready below the floor, which an open dequeue holds. Of the given channels; NULL: of all.
-- p_now: the caller's reading of the clock, so that it lists no message of scheduled twice. p_due_limit: read at most
-- this many messages of each channel that became due; NULL: all.
CREATE OR REPLACE FUNCTION list_undispatched (
    p_channels TEXT[], p_limit INT, p_now BIGINT, p_due_limit INT DEFAULT NULL)
RETURNS SETOF entry LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY
    SELECT m.id, m.generation, (-m.priority)::SMALLINT, m.dequeue_at, m.cost, m.lane, m.channel
    FROM message_undispatched(p_limit) m WHERE p_channels IS NULL OR m.channel = ANY (p_channels)
    UNION ALL
    SELECT s.id, s.generation, s.rank, s.at, s.cost, s.lane, s.channel
    FROM unnest(p_channels) c (name)
    CROSS JOIN LATERAL (
        SELECT * FROM scheduled s
        WHERE (s.channel, s.at) <= (c.name, p_now) AND s.channel >= c.name
        ORDER BY s.channel, s.at, s.id LIMIT p_due_limit) s
    UNION ALL
    SELECT s.id, s.generation, s.rank, s.at, s.cost, s.lane, s.channel
    FROM scheduled s WHERE p_channels IS NULL AND s.at <= p_now
    UNION ALL
    SELECT r.id, r.generation, r.rank, r.at, r.cost, r.lane, r.channel
    FROM ready_locked h
    CROSS JOIN LATERAL (SELECT * FROM ready r WHERE r.lane = h.lane AND r.tag = h.tag AND r.id = h.id OFFSET 0) r
    WHERE p_channels IS NULL OR r.channel = ANY (p_channels);
END $$;
