-- Part of maintain: drop the ring rows of quiet channels, if they are still quiet once locked and nothing of them is leased. What they served
-- goes into the tally.
CREATE OR REPLACE FUNCTION ring_forget (p_tick tick, p_channels TEXT[], p_now BIGINT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    v_tids TID[];
    v_channels TEXT[];
    v_gone BIGINT;
BEGIN
    SELECT array_agg(r.tid), array_agg(r.channel) INTO v_tids, v_channels
    FROM unnest(p_channels) q (channel)
    CROSS JOIN LATERAL (SELECT r.turn FROM ring r WHERE r.channel = q.channel ORDER BY r.turn DESC LIMIT 1) last
    LEFT JOIN LATERAL (SELECT * FROM channel c WHERE c.name = q.channel OFFSET 0) c ON TRUE
    CROSS JOIN LATERAL (
        SELECT r.ctid AS tid, r.channel FROM ring r
        WHERE r.channel = q.channel AND r.turn = last.turn AND r.due_at IS NULL AND r.head_at IS NULL
            AND COALESCE(r.released_at, 0) + GREATEST(3600000, COALESCE(c.release_interval_ms, 0)) < p_now
        FOR UPDATE SKIP LOCKED) r;
    WITH leased AS MATERIALIZED (
        SELECT DISTINCT m.channel FROM message m WHERE m.leased AND (m.lease_end_at, m.id) > (p_tick.swept_at, p_tick.swept_id)
        UNION
        SELECT m.channel FROM (SELECT p.key FROM postponed p WHERE p.id >= p_tick.postponed_id AND left(p.key, 1) = 'm') p
        CROSS JOIN LATERAL (SELECT m.channel FROM message m WHERE m.id = substr(p.key, 2)::BIGINT OFFSET 0) m),
    gone AS (
        DELETE FROM ring r USING unnest(v_tids, v_channels) q (tid, channel)
        WHERE r.ctid = q.tid AND COALESCE(q.channel NOT IN (SELECT l.channel FROM leased l), FALSE)
        RETURNING r.channel, r.served, r.released_at),
    kept AS (
        INSERT INTO tally AS t (channel, served, released_at) SELECT g.channel, g.served, g.released_at FROM gone g
        ON CONFLICT (channel) DO UPDATE SET served = t.served + EXCLUDED.served, released_at = EXCLUDED.released_at)
    SELECT COUNT(*) INTO v_gone FROM gone;
    RETURN v_gone;
END $$;
