-- Part of status_get: how a message ended, from its result or else from the history; no row if neither is kept.
-- A login that is bound to channels searches in these only. Its conditions (pairs, id + 0) are such that the planner
-- must use the indexes that begin with the channel. Its cost grows with the history of these channels.
CREATE OR REPLACE FUNCTION finished_find (p_id BIGINT, p_with_result BOOLEAN)
RETURNS TABLE (
    outcome TEXT, channel TEXT, created_at BIGINT, dequeue_at BIGINT, dequeued_at BIGINT, finished_at BIGINT,
    attempts INT, consumer TEXT, error TEXT, until_at BIGINT, content_type TEXT, content BYTEA)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    v_bound TEXT[] := bound_channels();
    v_now BIGINT := clock_ms();
BEGIN
    RETURN QUERY
    SELECT r.outcome, r.channel, NULL::BIGINT, NULL::BIGINT, NULL::BIGINT, r.finished_at, r.attempts, NULL, r.error,
        r.until_at, r.content_type, CASE WHEN p_with_result THEN r.content END
    FROM (
        SELECT r.* FROM result r WHERE r.id = p_id AND v_bound IS NULL
        UNION ALL
        SELECT r.* FROM unnest(v_bound) c (name)
        CROSS JOIN LATERAL (
            SELECT * FROM result r
            WHERE (r.channel, r.id) >= (c.name, p_id) AND (r.channel, r.id) <= (c.name, p_id) OFFSET 0) r) r
    WHERE r.until_at > v_now;
    IF NOT FOUND THEN
        RETURN QUERY
        SELECT f.outcome, f.channel, f.created_at, f.dequeue_at, f.dequeued_at, f.finished_at, f.attempts, f.consumer,
            f.error, NULL::BIGINT, NULL, NULL::BYTEA
        FROM (
            SELECT f.* FROM finished f WHERE f.id = p_id AND v_bound IS NULL
            UNION ALL
            SELECT f.* FROM unnest(v_bound) c (name)
            CROSS JOIN LATERAL (
                SELECT x.finished_at FROM finished x WHERE x.channel = c.name AND x.id + 0 = p_id OFFSET 0) x
            CROSS JOIN LATERAL (
                SELECT * FROM finished f
                WHERE f.channel = c.name AND f.finished_at = x.finished_at AND f.id + 0 = p_id OFFSET 0) f) f
        ORDER BY f.finished_at DESC LIMIT 1;
    END IF;
END $$;
