-- Part of a fold: rebuild, unless somebody folds or dequeues at this moment; then the next fold tries again.
CREATE OR REPLACE FUNCTION rebuild_if_free ()
RETURNS BOOLEAN LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM fold_lock FOR UPDATE SKIP LOCKED;
    IF FOUND AND tick_is_foreign((SELECT t FROM tick t ORDER BY id DESC LIMIT 1), clock_ms()) THEN
        PERFORM fold_lock_guard();
        BEGIN
            LOCK TABLE ring IN EXCLUSIVE MODE NOWAIT;
            PERFORM rebuild();
        EXCEPTION WHEN lock_not_available THEN
            NULL;                           -- a dequeue is open: it must end first
        END;
    END IF;
    RETURN TRUE;
END $$;
