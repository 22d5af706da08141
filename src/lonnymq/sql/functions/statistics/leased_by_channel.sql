-- How many messages of each channel are leased, among the p_limit whose leases end next.
CREATE OR REPLACE FUNCTION leased_by_channel (p_limit INT)
RETURNS SETOF share LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY
    SELECT x.channel, COUNT(*)::INT, NULL::BIGINT
    FROM (
        SELECT m.channel
        FROM lease l
        CROSS JOIN LATERAL unnest(l.stubs) s
        CROSS JOIN LATERAL (
            SELECT m.channel FROM message m WHERE m.id = s.id AND m.generation = s.generation OFFSET 0) m
        WHERE l.end_at > (SELECT t.swept_at FROM tick t ORDER BY t.id DESC LIMIT 1)
        ORDER BY l.end_at LIMIT p_limit) x
    GROUP BY x.channel;
END $$;
