-- Messages that wait or are leased; attempts includes the running one. For a login that is bound to channels only the
-- second branch is in the plan (ADR 18).
CREATE OR REPLACE VIEW messages WITH (security_barrier) AS
SELECT m.id, m.channel,
    CASE WHEN l.end_at IS NOT NULL THEN 'leased'
         WHEN m.dequeue_at <= to_epoch(clock_timestamp()) THEN 'due' ELSE 'scheduled' END AS status,
    m.dequeue_at, m.created_at, COALESCE(m.first_dequeued_at, m.dequeued_at, l.dequeued_at) AS first_dequeued_at,
    COALESCE(l.dequeued_at, m.dequeued_at) AS dequeued_at, l.end_at AS lease_end_at,
    m.attempts + (l.end_at IS NOT NULL)::INT AS attempts, m.max_attempts,
    CASE WHEN l.end_at IS NOT NULL THEN l.consumer ELSE m.consumer END AS consumer,
    m.error, m.past_errors, m.dedupe_key, m.is_cancelled, m.headers, m.state, m.content,
    m.lane, m.priority::INT AS priority, m.cost, m.batch_id
FROM message m
LEFT JOIN (
    SELECT s.id, s.generation, l.end_at, l.dequeued_at, l.consumer FROM lease l CROSS JOIN LATERAL unnest(l.stubs) s) l
    ON l.id = m.id AND l.generation = m.generation
WHERE login_is_free() AND (SELECT bound_channels()) IS NULL
UNION ALL
SELECT * FROM message_visible() WHERE NOT login_is_free();
