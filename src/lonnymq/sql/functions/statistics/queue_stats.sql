-- The numbers of the queue. waiting is exact, unless nobody has dispatched for 10,000 calls or more; served is exact as
-- of the last dispatch. scheduled is exact up to 10,000 and estimated from a sample above; due is waiting less
-- scheduled. oldest_due_ms: see oldest_due_at. leased and dead are counted up to 10,000. running: how much of the
-- queue's limit is in use. workers: how many workers are alive. unknown_tasks: the tasks that these have met recently
-- and that none of them knows. The cost does not depend on how many messages wait.
CREATE OR REPLACE FUNCTION queue_stats ()
RETURNS TABLE (
    waiting BIGINT, due BIGINT, scheduled BIGINT, leased BIGINT, dead BIGINT,
    oldest_due_ms BIGINT, served BIGINT, last_served_at BIGINT,
    running INT, max_concurrency INT, paused BOOLEAN, blocked_by TEXT, workers BIGINT, unknown_tasks TEXT[])
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    v_since BIGINT;
    v_now BIGINT := clock_ms();
    q queue;
    t tick;
BEGIN
    PERFORM unbound_check('queue_stats');
    SELECT * INTO q FROM queue;
    SELECT * INTO t FROM tick ORDER BY id DESC LIMIT 1;
    waiting := COALESCE(t.waiting, 0) + (
        SELECT COALESCE(SUM((w.notice).n), 0) FROM notice_read(t, pg_current_snapshot(), 10000) w);
    scheduled := LEAST(scheduled_count(v_now), waiting);
    due := waiting - scheduled;
    leased := (SELECT COALESCE(SUM(l.n), 0) FROM leased_by_channel(10000) l);
    dead := (SELECT COUNT(*) FROM (SELECT FROM dead d ORDER BY d.id LIMIT 10000) x);
    v_since := oldest_due_at(t.lanes);
    oldest_due_ms := CASE WHEN v_since IS NOT NULL THEN GREATEST(0, v_now - v_since) END;
    served := COALESCE(t.served, 0);
    last_served_at := t.served_at;
    max_concurrency := q.max_concurrency;
    running := CASE WHEN q.max_concurrency IS NOT NULL THEN leased END;
    paused := q.paused;
    blocked_by := CASE WHEN waiting = 0 THEN 'empty' WHEN due = 0 THEN 'scheduled' WHEN q.paused THEN 'paused'
        WHEN running >= q.max_concurrency THEN 'queue limit' END;
    workers := (SELECT COUNT(*) FROM workers_live(v_now));
    unknown_tasks := ARRAY(SELECT u.task FROM unknown_task_list() u WHERE NOT u.is_known);
    RETURN NEXT;
END $$;
