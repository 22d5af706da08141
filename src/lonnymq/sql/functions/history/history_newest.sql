-- Part of history_summary: the p_limit newest rows of the history, the newest first: of a channel that finished since
-- p_since, by time; or of all channels, by transaction, because there is no index of all by time. waited_ms: from when
-- the message was first due until it was first dequeued; NULL if it never was, or if it was retried after it had died.
-- worked_ms: the duration of the last attempt; NULL if it was cancelled. The client's FinishedMessage has the same
-- rules.
CREATE OR REPLACE FUNCTION history_newest (p_channel TEXT, p_since BIGINT, p_limit INT)
RETURNS TABLE (
    finished_at BIGINT, task TEXT, outcome TEXT, attempts INT, waited_ms BIGINT, worked_ms BIGINT)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    v_since BIGINT := COALESCE(p_since, -9223372036854775808);
BEGIN
    RETURN QUERY
    SELECT n.finished_at, n.headers ->> 'task', n.outcome, n.attempts,
        CASE WHEN n.first_dequeued_at >= GREATEST(n.created_at, COALESCE(n.past_runs[1], n.dequeue_at))
            THEN n.first_dequeued_at - GREATEST(n.created_at, COALESCE(n.past_runs[1], n.dequeue_at)) END,
        CASE WHEN n.outcome <> 'cancelled' AND n.dequeued_at IS NOT NULL
            THEN GREATEST(n.finished_at - n.dequeued_at, 0) END
    FROM (
        (SELECT * FROM finished f WHERE p_channel IS NULL ORDER BY f.xid DESC LIMIT p_limit)
        UNION ALL
        (SELECT * FROM finished f WHERE f.channel = p_channel AND f.finished_at >= v_since
        ORDER BY f.finished_at DESC, f.id DESC LIMIT p_limit)) n;
END $$;
