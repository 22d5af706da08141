-- Part of a fold after a restore: the next p_limit channels that have waiting messages, as wakes, and where to go on; NULL: done.
CREATE OR REPLACE FUNCTION ring_resume (p_tick tick, p_limit INT, OUT wakes wake[], OUT resume_channel TEXT)
LANGUAGE plpgsql AS $$
BEGIN
    WITH RECURSIVE first AS (
        (SELECT m.channel, m.dequeue_at, m.id, 1 AS n FROM message m
         WHERE NOT m.leased AND m.channel > p_tick.resume_channel ORDER BY m.channel, m.dequeue_at, m.id LIMIT 1)
        UNION ALL
        SELECT next.* FROM first CROSS JOIN LATERAL (
            SELECT m.channel, m.dequeue_at, m.id, first.n + 1 FROM message m
            WHERE NOT m.leased AND m.channel > first.channel ORDER BY m.channel, m.dequeue_at, m.id LIMIT 1) next
        WHERE first.n < p_limit)
    SELECT array_agg(ROW(NULL, NULL, f.dequeue_at, f.id, 9223372036854775807, 9223372036854775807, f.channel, 0)::wake)
        || array_agg(ROW(NULL, NULL, NULL, NULL, NULL, NULL, f.channel, 0)::wake),
        CASE WHEN COUNT(*) = p_limit THEN MAX(f.channel) END
    INTO wakes, resume_channel FROM first f;
END $$;
