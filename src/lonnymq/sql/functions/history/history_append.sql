-- Write the history rows of messages that are about to end: those with an outcome. The caller has locked the messages.
CREATE OR REPLACE FUNCTION history_append (p_endings ending[], p_now BIGINT)
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO finished (id, created_at, dequeue_at, first_dequeued_at, dequeued_at, finished_at, attempts,
        content_bytes, cost, priority, outcome, lane, channel, consumer, error, dedupe_key, headers, past_runs,
        content)
    SELECT m.id, m.created_at, m.dequeue_at, COALESCE(m.first_dequeued_at, m.dequeued_at, e.dequeued_at),
        COALESCE(e.dequeued_at, m.dequeued_at), p_now, m.attempts + CASE WHEN e.token IS NULL THEN 0 ELSE 1 END,
        octet_length(m.content), m.cost, m.priority, e.outcome, m.lane, m.channel,
        CASE WHEN e.token IS NULL THEN m.consumer ELSE e.consumer END, COALESCE(e.error, m.error), m.dedupe_key,
        m.headers, m.past_runs, CASE WHEN q.history_content THEN m.content END
    FROM queue q CROSS JOIN unnest(p_endings) e
    CROSS JOIN LATERAL (SELECT * FROM message m WHERE m.id = e.id OFFSET 0) m
    WHERE e.outcome IS NOT NULL;
END $$;
