-- Part of a dispatch that cannot go on from the tick, unless somebody dispatches at this moment. It is from another
-- cluster: a restored dump, whose transaction numbers mean nothing here; or there is none. Then every message that is
-- in no place is looked for, in the order of ids, by the dispatches to come. While a restore runs nothing is done: a
-- table gets its primary key once all its rows are there; and nothing in a transaction that has written before.
-- Returns whether to dispatch again at once.
CREATE OR REPLACE FUNCTION tick_renew ()
RETURNS BOOLEAN LANGUAGE plpgsql AS $$
DECLARE
    t tick;
BEGIN
    IF pg_current_xact_id_if_assigned() IS NOT NULL OR EXISTS (
        SELECT FROM pg_class c
        WHERE c.relnamespace = (SELECT m.relnamespace FROM pg_class m WHERE m.oid = 'message'::REGCLASS)
            AND c.relkind = 'r'
            AND c.relname IN ('message', 'notice', 'scheduled', 'alarm', 'line', 'backlog', 'ready', 'held',
                'recent', 'lease',
                'tick', 'slots', 'policy_change', 'channel', 'queue', 'dispatch_lock', 'served_by', 'tally')
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
            NULL;                           -- a dequeue is open: the next dispatch tries again
        END;
    ELSIF tick_is_foreign(t) THEN
        PERFORM slots_released(ARRAY(SELECT w FROM notice w WHERE w.wanted IS NOT NULL), t.lanes, clock_ms());
        DELETE FROM notice;                 -- its transaction numbers would come up here, too, some day
        UPDATE upkeep SET cleaned_xid = '0', passed_xid = '0', held_xid = NULL;
        PERFORM tick_write(tick_walk(t, clock_ms()));
    END IF;
    PERFORM lock_guard();
    RETURN TRUE;
END $$;
