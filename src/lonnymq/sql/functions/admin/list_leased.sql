-- The first p_limit leased messages from a position on, of one channel, lane and consumer or of all (NULL), in the
-- order in which their leases end. Messages are looked up only for the leases of that consumer.
CREATE OR REPLACE FUNCTION list_leased (
    p_channel TEXT, p_at BIGINT, p_id BIGINT, p_limit INT, p_lane TEXT, p_consumer TEXT)
RETURNS TABLE (id BIGINT, generation INT, end_at BIGINT, consumer TEXT) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT s.id, s.generation, l.end_at, l.consumer
    FROM lease l
    CROSS JOIN LATERAL unnest(l.stubs) s
    CROSS JOIN LATERAL (
        SELECT FROM message m
        WHERE m.id = s.id AND m.generation = s.generation AND (p_channel IS NULL OR m.channel = p_channel)
            AND (p_lane IS NULL OR m.lane = p_lane) OFFSET 0) m
    WHERE l.end_at >= p_at AND (l.end_at, s.id) >= (p_at, p_id) AND (p_consumer IS NULL OR l.consumer = p_consumer)
    ORDER BY l.end_at, s.id LIMIT p_limit;
END $$;
