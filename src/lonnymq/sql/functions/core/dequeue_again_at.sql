-- When a consumer that got fewer messages than it asked for should ask again: at once if there is something to
-- dispatch, otherwise when the next message or channel is due. At most one second ahead, because a lease may run out.
CREATE OR REPLACE FUNCTION dequeue_again_at (p_now BIGINT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    t tick;
    v_own XID8 := pg_current_xact_id_if_assigned(); -- nobody can dispatch its notices before it commits
BEGIN
    SELECT * INTO t FROM tick ORDER BY id DESC LIMIT 1;
    IF notice_is_new(t) OR tick_is_unusable(t) OR t.at > p_now + 1000 OR EXISTS (
        SELECT FROM (SELECT * FROM notice_read(t, pg_current_snapshot(), 16) LIMIT 16) w
        WHERE (w.notice).xid IS DISTINCT FROM v_own) OR dispatch_is_due(t, p_now, 10000)
    THEN
        RETURN p_now;
    END IF;
    RETURN GREATEST(p_now + 5, LEAST(
        p_now + 1000,
        t.locked_check_at,
        (SELECT s.at FROM scheduled s WHERE s.at > t.due_to ORDER BY s.at, s.id LIMIT 1),
        (SELECT a.at FROM alarm a WHERE a.at > t.alarm_to ORDER BY a.at, a.id LIMIT 1)));
END $$;
