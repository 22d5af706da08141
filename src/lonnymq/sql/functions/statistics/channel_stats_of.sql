-- How the channels stand, one row each, in the order given. due, scheduled and dead are counted up to p_cap each, from where
-- something can wait (its head) on, as of the last fold; leases up to p_cap too, but exactly where there is a concurrency limit.
-- The cost depends on these bounds, not on what waits. blocked_by: why the next message is not released now; NULL: it will be. A login
-- that is bound to channels is not told of the limit over all channels: others use it up. No row of other channels is read for it.
CREATE OR REPLACE FUNCTION channel_stats_of (p_channels TEXT[], p_cap INT)
RETURNS TABLE (
    channel TEXT, waiting BIGINT, due BIGINT, scheduled BIGINT, leased BIGINT, dead BIGINT,
    oldest_due_ms BIGINT, served BIGINT, last_served_at BIGINT, blocked_by TEXT,
    max_concurrency INT, release_interval_ms BIGINT, paused BOOLEAN, max_size INT)
LANGUAGE plpgsql STABLE
SET plan_cache_mode TO force_generic_plan SET enable_seqscan TO off SET enable_bitmapscan TO off SET enable_hashjoin TO off
SET enable_mergejoin TO off SET jit TO off AS $$
#variable_conflict use_column
DECLARE
    c_start CONSTANT BIGINT := -9223372036854775808;
    c_end CONSTANT BIGINT := 9223372036854775807;
    v_now BIGINT := clock_ms();
    q queue;
    t tick;
    v_is_full BOOLEAN;
BEGIN
    SELECT * INTO q FROM queue;
    SELECT * INTO t FROM tick ORDER BY tick.id DESC LIMIT 1;
    v_is_full := CASE WHEN q.max_concurrency IS NOT NULL AND bound_channels() IS NULL THEN queue_slot_busy() >= q.max_concurrency END;
    RETURN QUERY
    SELECT s.channel, s.due + s.scheduled, s.due, s.scheduled, s.leased, s.dead, CASE WHEN s.due > 0 THEN GREATEST(0, v_now - s.oldest_at) END,
        s.served, s.released_at,
        CASE WHEN s.due + s.scheduled = 0 THEN 'empty' WHEN s.due = 0 THEN 'scheduled' WHEN s.paused OR q.paused THEN 'paused'
             WHEN s.leased >= s.max_concurrency THEN 'concurrency'
             WHEN s.released_at + s.interval_ms > v_now AND s.interval_ms > 0 THEN 'rate'
             WHEN v_is_full THEN 'queue limit' END,
        s.max_concurrency, s.interval_ms, s.paused, s.max_size
    FROM (
        SELECT u.channel, u.ord, c.max_concurrency, COALESCE(c.release_interval_ms, 0) AS interval_ms,
            COALESCE(c.paused, FALSE) AS paused, c.max_size, COALESCE(r.served, 0) + COALESCE(y.served, 0) AS served,
            COALESCE(r.released_at, y.released_at) AS released_at,
            d.n AS due, f.n AS scheduled, k.n AS dead, LEAST(o.at, p.at) AS oldest_at,
            CASE WHEN c.max_concurrency IS NOT NULL AND r.running IS NOT NULL THEN l.n
                 ELSE e.n END AS leased
        FROM unnest(p_channels) WITH ORDINALITY u (channel, ord)
        LEFT JOIN LATERAL (SELECT * FROM channel c WHERE c.name = u.channel OFFSET 0) c ON TRUE
        LEFT JOIN LATERAL (SELECT * FROM tally y WHERE y.channel = u.channel OFFSET 0) y ON TRUE
        LEFT JOIN LATERAL (SELECT * FROM ring r WHERE r.channel = u.channel ORDER BY r.turn DESC LIMIT 1) r ON TRUE
        CROSS JOIN LATERAL (
            SELECT COUNT(*) AS n
            FROM (
                SELECT FROM generate_series(0, COALESCE(array_length(r.gaps, 1), 0)) i -- a stretch before each gap, and one behind the last
                CROSS JOIN LATERAL (
                    SELECT FROM message m
                    WHERE NOT m.leased AND m.channel = u.channel AND m.dequeue_at <= v_now
                        AND (m.dequeue_at, m.id) >= (COALESCE(r.gaps[i][3], r.head_at, c_start), COALESCE(r.gaps[i][4], r.head_id, 0))
                        AND (m.dequeue_at, m.id) <= (COALESCE(r.gaps[i + 1][1], c_end), COALESCE(r.gaps[i + 1][2], 0))
                    LIMIT p_cap) m
                LIMIT p_cap) x) d
        CROSS JOIN LATERAL (
            SELECT COUNT(*) AS n FROM (
                SELECT FROM message m WHERE NOT m.leased AND m.channel = u.channel AND m.dequeue_at > v_now ORDER BY m.dequeue_at LIMIT p_cap) x) f
        CROSS JOIN LATERAL (
            SELECT COUNT(*) AS n FROM (SELECT FROM dead d WHERE d.channel = u.channel LIMIT p_cap) x) k
        CROSS JOIN LATERAL (
            SELECT COUNT(*) AS n FROM (
                SELECT FROM message m
                WHERE m.leased::INT = 1 AND m.channel = u.channel AND (c.max_concurrency IS NULL OR r.running IS NULL)
                    AND (m.lease_end_at, m.id) > (COALESCE(t.swept_at, 0), COALESCE(t.swept_id, 0))
                LIMIT p_cap) x) e
        LEFT JOIN LATERAL (                 -- the first in line,
            SELECT GREATEST(m.dequeue_at, m.created_at) AS at FROM message m
            WHERE NOT m.leased AND m.channel = u.channel AND (m.dequeue_at, m.id) >= (COALESCE(r.head_at, c_start), COALESCE(r.head_id, 0))
            ORDER BY m.dequeue_at, m.id LIMIT 1) o ON TRUE
        LEFT JOIN LATERAL (                 -- and the first that is not urgent
            SELECT GREATEST(m.dequeue_at, m.created_at) AS at FROM message m
            WHERE NOT m.leased AND m.channel = u.channel AND m.dequeue_at > 0
                AND (m.dequeue_at, m.id) >= (COALESCE((
                    SELECT r.gaps[i][3] FROM generate_subscripts(r.gaps, 1) i WHERE r.gaps[i][1] <= 0 AND r.gaps[i][3] > 0), r.head_at, c_start), 0)
            ORDER BY m.dequeue_at, m.id LIMIT 1) p ON TRUE
        CROSS JOIN LATERAL (
            SELECT COUNT(*) AS n FROM (SELECT DISTINCT i FROM unnest(CASE WHEN c.max_concurrency IS NOT NULL THEN r.running END) i) i
            CROSS JOIN LATERAL (SELECT FROM message m WHERE m.id = i.i AND COALESCE(m.leased, FALSE) OFFSET 0) m) l
    ) s
    ORDER BY s.ord;
END $$;
