-- Part of maintain: of the p_limit channels below p_below, those with nothing to do whose last release no longer matters.
-- Walks down the primary key, where the first row of every channel is its live one. next: where to go on; NULL: from the top.
CREATE OR REPLACE FUNCTION ring_quiet (p_below TEXT, p_limit INT, p_now BIGINT, OUT next TEXT, OUT quiet TEXT[])
LANGUAGE plpgsql STABLE AS $$
BEGIN
    WITH RECURSIVE down AS (
        (SELECT r.*, 1 AS n FROM ring r
         WHERE r.channel < COALESCE(p_below, (SELECT r.channel || 'x' FROM ring r ORDER BY r.channel DESC, r.turn DESC LIMIT 1))
         ORDER BY r.channel DESC, r.turn DESC LIMIT 1)
        UNION ALL
        SELECT lower.* FROM down CROSS JOIN LATERAL (
            SELECT r.*, down.n + 1 FROM ring r WHERE r.channel < down.channel ORDER BY r.channel DESC, r.turn DESC LIMIT 1) lower
        WHERE down.n < p_limit)
    SELECT CASE WHEN COUNT(*) = p_limit THEN MIN(d.channel) END,
        array_agg(d.channel) FILTER (WHERE d.due_at IS NULL AND d.head_at IS NULL
            AND COALESCE(d.released_at, 0) + GREATEST(3600000, COALESCE(c.release_interval_ms, 0)) < p_now)
    INTO next, quiet
    FROM down d LEFT JOIN LATERAL (SELECT * FROM channel c WHERE c.name = d.channel OFFSET 0) c ON TRUE;
END $$;
