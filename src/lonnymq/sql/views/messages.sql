-- What waits or is leased.
CREATE OR REPLACE VIEW messages WITH (security_barrier) AS
SELECT m.id, m.channel, CASE WHEN m.leased THEN 'leased' WHEN m.dequeue_at <= to_epoch(clock_timestamp()) THEN 'due' ELSE 'scheduled' END AS status,
    m.dequeue_at, m.created_at, COALESCE(m.first_dequeued_at, m.dequeued_at) AS first_dequeued_at, m.dequeued_at, m.lease_end_at, m.attempts,
    m.max_attempts, m.consumer, m.error, m.past_errors, m.dedupe_key, m.is_cancelled, m.headers, m.state, m.content
FROM message m
WHERE (SELECT bound_channels()) IS NULL OR m.channel = ANY ((SELECT bound_channels())::TEXT[]);
