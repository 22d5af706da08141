-- Register a consumer as sleeping, so that producers notify. The consumer must already LISTEN on queue_get's
-- notify_channel. It commits this call, then dispatches and dequeues once more, and sleeps until again_at or a
-- notification.
--
-- Why no message is missed: a writer first takes a write lock on message or notice, which it holds until its
-- transaction ends, and then reads whether a consumer sleeps. If it read before this call committed, either it still
-- has that lock, and the next call of sleep_begin sees it; or it has committed, and the last dequeue finds its message.
--
-- Returns is_sure = FALSE if such a writer may be running, or if this call was the one that registered: sleep a few
-- milliseconds, try to dequeue, and call again. p_generation: the generation of the last call that was sure; as long as
-- it is current, nothing has to be checked.
--
-- Writes only if no consumer was registered. Consumers and producers never wait for what it locks; calls that change
-- settings do, for at most a few seconds (lock_guard).
CREATE OR REPLACE FUNCTION sleep_begin (p_generation BIGINT DEFAULT NULL)
RETURNS TABLE (generation BIGINT, is_sure BOOLEAN) LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    s sleep;
BEGIN
    PERFORM isolation_check('sleep_begin');
    PERFORM unbound_check('sleep_begin');
    SELECT * INTO s FROM sleep ORDER BY id DESC LIMIT 1;
    IF NOT (SELECT q.notify FROM queue q) THEN
        RETURN QUERY SELECT s.id, FALSE;
    ELSIF NOT s.is_asleep THEN
        -- Only a call that sees the commit can be sure.
        UPDATE sleep SET id = DEFAULT, is_asleep = TRUE
        WHERE id = (SELECT x.id FROM sleep x WHERE x.id = s.id FOR UPDATE SKIP LOCKED);
        IF FOUND THEN
            PERFORM lock_guard();           -- calls that change settings wait for this row
        END IF;
        RETURN QUERY SELECT s.id, FALSE;
    ELSIF s.id = p_generation THEN
        RETURN QUERY SELECT s.id, TRUE;
    ELSE
        RETURN QUERY
        SELECT s.id, NOT EXISTS (
            SELECT FROM pg_locks l
            WHERE l.locktype = 'relation' AND l.relation IN ('message'::REGCLASS, 'notice'::REGCLASS)
                AND l.mode = 'RowExclusiveLock' AND l.granted
                AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
                AND l.pid IS DISTINCT FROM pg_backend_pid());
    END IF;
END $$;
