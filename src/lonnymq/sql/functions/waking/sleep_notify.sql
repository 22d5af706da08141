-- After something was appended: tell the consumers that sleep, if any does. In a statement of its own, whose snapshot
-- is younger than the locks that the append took: see sleep_begin. Under a snapshot that may be older, tell in any
-- case. Nobody sleeps for more than a second: who is needed only at p_at, later than that, need not be told.
CREATE OR REPLACE FUNCTION sleep_notify (p_at BIGINT DEFAULT NULL)
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT q.notify FROM queue q)
        AND ((SELECT s.is_asleep FROM sleep s ORDER BY s.id DESC LIMIT 1)
            OR current_setting('transaction_isolation') IN ('repeatable read', 'serializable'))
        AND (p_at IS NULL OR p_at < clock_ms() + 1000)
    THEN
        PERFORM pg_notify(notify_channel(), '');
    END IF;
END $$;
