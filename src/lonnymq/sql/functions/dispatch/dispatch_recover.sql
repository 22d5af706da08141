-- Part of dispatch, for a tick that cannot be used: either there is none, or it comes from another cluster (a restored
-- dump), so that its transaction ids mean nothing here. Starts a rescan: the next dispatches read all messages by id
-- and place those that are in no place.
-- Does nothing while a restore is running (a table gets its primary key after its rows), nor in a transaction that has
-- already written, nor while another session dispatches. Returns TRUE if the caller should dispatch again at once.
CREATE OR REPLACE FUNCTION dispatch_recover ()
RETURNS BOOLEAN LANGUAGE plpgsql AS $$
DECLARE
    t tick;
BEGIN
    IF pg_current_xact_id_if_assigned() IS NOT NULL OR EXISTS (
        SELECT FROM pg_class c
        WHERE c.relnamespace = (SELECT m.relnamespace FROM pg_class m WHERE m.oid = 'message'::REGCLASS)
            AND c.relkind = 'r'
            AND c.relname IN ('message', 'notice', 'scheduled', 'alarm', 'line', 'backlog', 'ready', 'ready_locked',
                'recent_tag', 'lease', 'tick', 'slots', 'policy_change', 'channel', 'queue', 'dispatch_lock',
                'served_by', 'tally')
            AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary))
    THEN
        RETURN FALSE;
    END IF;
    PERFORM FROM dispatch_lock FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN TRUE;
    END IF;
    SELECT * INTO t FROM tick ORDER BY id DESC LIMIT 1;
    IF t.id IS NULL THEN
        BEGIN
            LOCK TABLE ready IN EXCLUSIVE MODE NOWAIT;
            PERFORM rebuild_places();
        EXCEPTION WHEN lock_not_available THEN
            NULL;                           -- a dequeue is open; the next dispatch tries again
        END;
    ELSIF tick_is_unusable(t) THEN
        PERFORM slots_mark_released(ARRAY(SELECT w FROM notice w WHERE w.wanted IS NOT NULL), t.lanes, clock_ms());
        DELETE FROM notice;                 -- this cluster will use the same transaction ids
        UPDATE maintenance SET cleaned_xid = '0', passed_xid = '0', open_xid = NULL;
        PERFORM tick_write(tick_rescan(t, clock_ms()));
    END IF;
    PERFORM lock_guard();
    RETURN TRUE;
END $$;
