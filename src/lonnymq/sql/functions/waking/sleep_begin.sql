-- Before a consumer sleeps: have it notified of what comes. It must LISTEN to queue_get's notify_channel already, and
-- commit this call before it looks once more (dispatch, message_dequeue) and then sleeps, until again_at or a
-- notification.
--
-- Whoever appends locks message or notice for writing, which it holds to its end, and then reads whether someone
-- sleeps. So a writer that read it before this call's commit either holds that lock still, which the next call sees,
-- or has committed, and the last look finds what it wrote. is_sure FALSE: such a writer may be under way, or this
-- call could not say that someone sleeps; sleep a few milliseconds, look and call again. p_generation: that of the
-- last call that was sure; while it stands nothing has to be asked.
--
-- Writes only when nobody slept before. No consumer or producer waits for what it locks; who changes settings does,
-- for a few seconds at most (lock_guard).
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
        -- Sure is who finds it committed: the next call.
        UPDATE sleep SET id = DEFAULT, is_asleep = TRUE
        WHERE id = (SELECT x.id FROM sleep x WHERE x.id = s.id FOR UPDATE SKIP LOCKED);
        IF FOUND THEN
            PERFORM lock_guard();           -- who changes settings waits for this row
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
