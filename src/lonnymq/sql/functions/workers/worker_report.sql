-- A worker says that it is alive, what it serves and what it does. Call it every few seconds. The row is written with
-- the first report, and the values that do not change are not written again. Does not wait for a call that requests
-- something of this worker: then this report is lost, but not the next one.
-- p_id: chosen by the worker, for as long as its process lives. p_tasks: the names of its tasks; '' stands for messages
-- without a task. p_unknown_tasks: the tasks that it has met recently and does not know; for each, how many messages,
-- and for how long.
-- Returns what an administrator wants the worker to be, 'serving', 'paused' or 'draining', and which of the unknown
-- tasks no live worker knows.
CREATE OR REPLACE FUNCTION worker_report (
    p_id UUID, p_name TEXT, p_host TEXT, p_pid INT, p_version TEXT, p_uptime_ms BIGINT, p_tasks TEXT[],
    p_concurrency INT, p_running INT, p_state TEXT, p_lanes TEXT[] DEFAULT NULL, p_unknown_tasks TEXT[] DEFAULT NULL,
    p_unknown_messages BIGINT[] DEFAULT NULL, p_unknown_ages_ms BIGINT[] DEFAULT NULL)
RETURNS TABLE (requested TEXT, unknown_to_all TEXT[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    v_now BIGINT := clock_ms();
    v_unknown unknown_task[];
    w worker;
BEGIN
    PERFORM unbound_check('worker_report');
    PERFORM array_lengths_check(COALESCE(cardinality(p_unknown_tasks), 0),
        COALESCE(cardinality(p_unknown_messages), 0), COALESCE(cardinality(p_unknown_ages_ms), 0));
    v_unknown := ARRAY(
        SELECT ROW(u.task, u.messages, v_now - GREATEST(u.age_ms, -1))::unknown_task
        FROM unnest(p_unknown_tasks, p_unknown_messages, p_unknown_ages_ms) u (task, messages, age_ms));
    w := ROW(p_id, p_pid, p_concurrency, p_running, v_now - GREATEST(p_uptime_ms, -1), v_now, p_state,
        CASE p_state WHEN 'draining' THEN 'serving' ELSE p_state END, p_name, p_host, p_version, v_unknown, p_lanes,
        p_tasks)::worker;                   -- a negative time is refused, however large it is
    PERFORM worker_check(w);
    SELECT x.requested INTO requested FROM worker x WHERE x.id = p_id;
    IF FOUND THEN
        UPDATE worker x SET seen_at = v_now, running = p_running, state = p_state, unknown_tasks = v_unknown
        WHERE x.ctid = ANY (ARRAY(SELECT y.ctid FROM worker y WHERE y.id = p_id FOR UPDATE SKIP LOCKED));
    ELSE
        INSERT INTO worker SELECT w.* ON CONFLICT DO NOTHING;
        requested := w.requested;
    END IF;
    unknown_to_all := ARRAY(
        SELECT u FROM unnest(p_unknown_tasks) u
        WHERE NOT EXISTS (SELECT FROM workers_live(v_now) l WHERE u = ANY (l.tasks)));
    RETURN NEXT;
END $$;
