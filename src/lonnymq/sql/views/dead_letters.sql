-- Messages that used up their attempts. xid: the transaction in which a message died, for followers (see history).
CREATE OR REPLACE VIEW dead_letters WITH (security_barrier) AS
SELECT d.id, d.channel, d.dead_at, d.dequeue_at, d.created_at,
    COALESCE(d.first_dequeued_at, d.dequeued_at) AS first_dequeued_at,
    d.dequeued_at, d.attempts, d.max_attempts, d.consumer, d.error, d.past_errors, d.dedupe_key, d.headers,
    d.state, d.content,
    d.xid, d.lane, d.priority::INT AS priority, d.cost, d.batch_id
FROM (
    SELECT * FROM dead WHERE login_is_free() AND (SELECT bound_channels()) IS NULL
    UNION ALL
    SELECT * FROM dead_visible() WHERE NOT login_is_free()) d;
