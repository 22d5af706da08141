-- What workers hold, and until when.
CREATE OR REPLACE VIEW leases WITH (security_barrier) AS
SELECT m.id, m.channel, m.consumer, m.dequeued_at, m.lease_end_at, m.attempts + 1 AS attempt, m.is_cancelled
FROM message m
WHERE m.leased AND ((SELECT bound_channels()) IS NULL OR m.channel = ANY ((SELECT bound_channels())::TEXT[]));
