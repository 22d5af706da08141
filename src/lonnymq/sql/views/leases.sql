-- What workers hold, and until when.
CREATE OR REPLACE VIEW leases WITH (security_barrier) AS
SELECT m.id, m.channel, m.consumer, m.dequeued_at, m.lease_end_at, m.attempts + 1 AS attempt, m.is_cancelled
FROM (
    SELECT * FROM message WHERE leased AND login_is_free() AND (SELECT bound_channels()) IS NULL
    UNION ALL
    SELECT * FROM message_visible(TRUE) WHERE NOT login_is_free()) m;
