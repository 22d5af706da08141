-- The statistics of channels, one row each, in the order given. due is exact, but of the messages that are not
-- dispatched yet, only p_cap of all channels are counted. scheduled and dead are counted up to p_cap each. leased is
-- exact if the channel has a concurrency limit; otherwise it is counted among the first 10,000 leases of all channels
-- (or p_cap, if that is more). The cost depends on these bounds, not on how many messages wait. blocked_by: why the
-- next message is not released now; NULL: it will be. For a login that is bound to channels, blocked_by does not report
-- the limit of the whole queue, because that depends on other channels.
CREATE OR REPLACE FUNCTION channel_stats_of (p_channels TEXT[], p_cap INT)
RETURNS SETOF channel_statistics LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    v_now BIGINT := clock_ms();
    v_bound TEXT[] := bound_channels();
    q queue;
    t tick;
BEGIN
    SELECT * INTO q FROM queue;
    SELECT * INTO t FROM tick ORDER BY tick.id DESC LIMIT 1;
    RETURN QUERY
    WITH running AS MATERIALIZED (SELECT l.channel, l.n FROM leased_by_channel(GREATEST(p_cap, 10000)) l),
    -- IS TRUE makes the plan look each row up in a hash table: there may be 10,000 of them.
    busy AS MATERIALIZED (
        SELECT l.channel, l.n FROM running l WHERE (l.channel IN (SELECT unnest(p_channels))) IS TRUE),
    full_queue AS MATERIALIZED (SELECT v_bound IS NULL AND SUM(l.n) >= q.max_concurrency AS is_full FROM running l),
    lately AS MATERIALIZED (
        SELECT s.channel, SUM(s.n) AS n, MAX(s.at) AS at FROM served_by b CROSS JOIN LATERAL unnest(b.shares) s
        WHERE b.id > t.tallied_id AND (s.channel IN (SELECT unnest(p_channels))) IS TRUE GROUP BY s.channel),
    unread AS MATERIALIZED (            -- not dispatched yet
        SELECT m.channel, COUNT(*) FILTER (WHERE m.dequeue_at <= v_now) AS due,
            COUNT(*) FILTER (WHERE m.dequeue_at > v_now) AS scheduled
        FROM message_undispatched(p_cap) m WHERE m.channel = ANY (p_channels) GROUP BY m.channel),
    void AS MATERIALIZED (SELECT v.channel, SUM(v.n) AS n FROM removals_pending(p_channels) v GROUP BY v.channel),
    below AS MATERIALIZED (             -- entries of ready below the floor
        SELECT r.channel, COUNT(*) AS n FROM ready_locked h
        CROSS JOIN LATERAL (
            SELECT r.channel FROM ready r WHERE r.lane = h.lane AND r.tag = h.tag AND r.id = h.id OFFSET 0) r
        GROUP BY r.channel)
    SELECT x.channel, x.due + x.scheduled, x.due, x.scheduled, x.leased, x.dead,
        CASE WHEN x.due > 0 THEN GREATEST(0, v_now - x.oldest_at) END, x.served, x.served_at,
        CASE WHEN x.due + x.scheduled = 0 THEN 'empty' WHEN x.due = 0 THEN 'scheduled'
             WHEN (x.policy).paused OR q.paused THEN 'paused'
             WHEN x.leased >= (x.policy).max_concurrency THEN 'concurrency'
             WHEN x.full_at_us - ((x.policy).burst - 1) * (x.policy).release_interval_us > 1000 * v_now THEN 'rate'
             WHEN f.is_full THEN 'queue limit' END,
        (x.policy).max_concurrency, (x.policy).release_interval_us, (x.policy).burst, (x.policy).paused,
        (x.policy).max_size, (x.policy).weight, (x.policy).inherited
    FROM (
        SELECT u.channel, u.ord, p AS policy,
            d.n + COALESCE((SELECT h.n FROM below h WHERE h.channel = u.channel), 0) + COALESCE(n.due, 0)
                - COALESCE((SELECT v.n FROM void v WHERE v.channel = u.channel), 0)::BIGINT AS due,
            LEAST(p_cap, f.n + COALESCE(n.scheduled, 0)) AS scheduled, k.n AS dead, d.oldest_at, s.full_at_us,
            CASE WHEN p.max_concurrency IS NOT NULL AND s.busy IS NOT NULL THEN slots_leased(u.channel, s.busy)
                 ELSE COALESCE(l.n, 0) END AS leased,
            COALESCE(y.served, 0) + COALESCE(w.n, 0)::BIGINT AS served, GREATEST(w.at, y.served_at) AS served_at
        FROM unnest(p_channels) WITH ORDINALITY u (channel, ord)
        CROSS JOIN LATERAL channel_policy_of(u.channel) p
        LEFT JOIN LATERAL (
            SELECT * FROM slots s WHERE s.channel = u.channel
            ORDER BY s.turn DESC LIMIT 1) s ON TRUE
        LEFT JOIN LATERAL (SELECT * FROM tally y WHERE y.channel = u.channel OFFSET 0) y ON TRUE
        LEFT JOIN busy l ON l.channel = u.channel LEFT JOIN lately w ON w.channel = u.channel
        LEFT JOIN unread n ON n.channel = u.channel
        CROSS JOIN LATERAL channel_due(u.channel, t.lanes) d
        CROSS JOIN LATERAL (
            SELECT COUNT(*) AS n FROM (
                SELECT FROM scheduled s WHERE (s.channel, s.at) >= (u.channel, 0) AND s.channel <= u.channel
                ORDER BY s.channel, s.at, s.id LIMIT p_cap) i) f
        CROSS JOIN LATERAL (
            SELECT COUNT(*) AS n FROM (
                SELECT FROM dead d WHERE (d.channel, d.id) > (u.channel, 0) AND d.channel <= u.channel
                ORDER BY d.channel, d.id LIMIT p_cap) i) k) x
    CROSS JOIN full_queue f
    ORDER BY x.ord;
END $$;
