-- Empty all places and refill them from the messages, leases and policies. Dispatches do this by themselves if there is
-- no tick. Waits for open dequeues and blocks new ones until it commits, which it must do within a few seconds
-- (lock_guard); producers and finishers are not affected. The next dispatches fill the places.
CREATE OR REPLACE FUNCTION rebuild ()
RETURNS VOID LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM isolation_check('rebuild');
    PERFORM unbound_check('rebuild');
    IF pg_current_xact_id_if_assigned() IS NOT NULL THEN
        PERFORM refuse('LM009', 'rebuild cannot run in a transaction that has written before',
            'Call it in a transaction of its own.');
    END IF;
    PERFORM rebuild_places();
    PERFORM lock_guard();
END $$;
