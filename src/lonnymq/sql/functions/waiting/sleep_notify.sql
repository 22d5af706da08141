-- After something was appended: notify if a consumer sleeps. It must be a separate statement, so that its snapshot is
-- newer than the locks that the append took (see sleep_begin). At isolation levels where the snapshot may be older, it
-- always notifies. Consumers sleep for at most a second, so nothing is sent for a message that is due later (p_at).
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
