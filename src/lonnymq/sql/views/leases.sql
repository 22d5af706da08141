-- Messages that are leased, by whom and until when. attempts includes the running one.
CREATE OR REPLACE VIEW leases WITH (security_barrier) AS
SELECT m.id, m.channel, l.consumer, l.dequeued_at, l.end_at AS lease_end_at, m.attempts + 1 AS attempts, m.is_cancelled
FROM lease l
CROSS JOIN LATERAL unnest(l.stubs) s
JOIN message m ON m.id = s.id AND m.generation = s.generation
WHERE login_is_free() AND (SELECT bound_channels()) IS NULL
UNION ALL
SELECT v.id, v.channel, v.consumer, v.dequeued_at, v.lease_end_at, v.attempts, v.is_cancelled
FROM message_visible(TRUE) v WHERE NOT login_is_free();
