-- Part of dispatch: read the notices that the tick has not seen, summarise them, and look whether anything else is due.
-- It is a single statement, because the next tick stores its snapshot. Locks and writes nothing.
CREATE OR REPLACE FUNCTION dispatch_read (
    t tick, p_now BIGINT, p_limit INT, OUT notices notice[], OUT summary notice_summary)
LANGUAGE plpgsql AS $$
DECLARE
    x RECORD;
BEGIN
    SELECT n.notices, ROW(s.snapshot, n.newer, n.is_behind, n.spans, n.hinted, n.waiting, n.taken, n.taken_at, n.wanted,
        n.lease_min_at, n.lease_max_at, n.has_back, n.has_asked, n.has_gone,
        (SELECT s.at FROM scheduled s WHERE s.at > t.due_to AND s.at <= p_now ORDER BY s.at, s.id LIMIT 1) IS NOT NULL,
        EXISTS (SELECT FROM alarm a WHERE a.at > t.alarm_to AND a.at <= p_now),
        (SELECT l.end_at FROM lease l WHERE l.end_at > LEAST(t.swept_at, n.lease_min_at - 1) AND l.end_at <= p_now
            ORDER BY l.end_at LIMIT 1) IS NOT NULL,
        q.max_concurrency,
        COALESCE(q.channel_max_concurrency, q.channel_release_interval_us) IS NOT NULL OR EXISTS (SELECT FROM channel),
        EXISTS (SELECT FROM policy_change c WHERE c.xid >= t.policy_xid))::notice_summary AS summary
    INTO x
    FROM queue q
    CROSS JOIN (SELECT pg_current_snapshot() AS snapshot OFFSET 0) s
    CROSS JOIN LATERAL (
        SELECT array_agg(w.notice) AS notices, COUNT(*) FILTER (WHERE NOT w.late) AS newer,
            GREATEST(COUNT(*) FILTER (WHERE NOT w.late), COUNT(*) FILTER (WHERE w.late)) >= p_limit AS is_behind,
            array_agg(ROW((w.notice).xid, (w.notice).lo_id, (w.notice).hi_id)::span)
                FILTER (WHERE (w.notice).lo_id IS NOT NULL) AS spans,
            array_agg(DISTINCT (w.notice).channel) FILTER (WHERE (w.notice).channel IS NOT NULL) AS hinted,
            COALESCE(SUM((w.notice).n), 0) AS waiting,
            COALESCE(-SUM((w.notice).n) FILTER (WHERE (w.notice).wanted IS NOT NULL), 0) AS taken,
            MAX((w.notice).at) FILTER (WHERE (w.notice).wanted IS NOT NULL) AS taken_at,
            SUM((w.notice).wanted) AS wanted,
            MIN((w.notice).lease_end_at) AS lease_min_at, MAX((w.notice).lease_end_at) AS lease_max_at,
            COUNT((w.notice).back) > 0 AS has_back, COUNT((w.notice).asked) > 0 AS has_asked,
            COUNT((w.notice).gone) > 0 AS has_gone
        FROM notice_read(t, s.snapshot, p_limit) w) n;
    notices := x.notices;
    summary := x.summary;
END $$;
