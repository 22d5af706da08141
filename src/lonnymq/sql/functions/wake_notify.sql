-- After something was appended: tell the consumers that sleep, if any does. In a statement of its own, whose snapshot is younger than the locks that the
-- append took: see wake_await. Under a snapshot that may be older, tell in any case.
CREATE OR REPLACE FUNCTION wake_notify ()
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT q.notify FROM queue q)
        AND ((SELECT s.is_asleep FROM sleep s ORDER BY s.id DESC LIMIT 1) OR current_setting('transaction_isolation') IN ('repeatable read', 'serializable'))
    THEN
        PERFORM pg_notify(notify_channel(), '');
    END IF;
END $$;
