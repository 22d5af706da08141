-- What waits or is leased. A login that is bound to channels reads the second branch, and the first is not in its plan (ADR 18).
CREATE OR REPLACE VIEW messages WITH (security_barrier) AS
SELECT m.id, m.channel, CASE WHEN m.leased THEN 'leased' WHEN m.dequeue_at <= to_epoch(clock_timestamp()) THEN 'due' ELSE 'scheduled' END AS status,
    m.dequeue_at, m.created_at, COALESCE(m.first_dequeued_at, m.dequeued_at) AS first_dequeued_at, m.dequeued_at, m.lease_end_at, m.attempts,
    m.max_attempts, m.consumer, m.error, m.past_errors, m.dedupe_key, m.is_cancelled, m.headers, m.state, m.content
FROM (
    SELECT * FROM message WHERE login_is_free() AND (SELECT bound_channels()) IS NULL
    UNION ALL
    SELECT * FROM message_visible() WHERE NOT login_is_free()) m;
