-- Remake all places from the messages, the leases and the policies. Dispatches do it by themselves when there is no
-- tick. Waits for open dequeues and holds new ones up until it commits, which it must within a few seconds
-- (lock_guard); producers and finishers go on. The places are then filled by the next dispatches.
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
