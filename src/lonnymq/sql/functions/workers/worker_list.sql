-- The workers that have reported and not stopped, by name: what each serves, what it does, and when it reported last.
-- A worker that has not reported for 30 seconds is not alive: it died, or cannot reach the database. It is left out if
-- it was replaced by one with the same name on the same host.
CREATE OR REPLACE FUNCTION worker_list ()
RETURNS TABLE (
    id UUID, name TEXT, host TEXT, pid INT, version TEXT, started_at BIGINT, seen_at BIGINT, is_alive BOOLEAN,
    state TEXT, requested TEXT, concurrency INT, running INT, lanes TEXT[], tasks TEXT[], unknown_tasks TEXT[])
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    v_now BIGINT := clock_ms();
BEGIN
    PERFORM unbound_check('worker_list');
    RETURN QUERY
    SELECT w.id, w.name, w.host, w.pid, w.version, w.started_at, w.seen_at,
        w.id IN (SELECT l.id FROM workers_live(v_now) l), w.state, w.requested, w.concurrency, w.running, w.lanes,
        w.tasks, ARRAY(SELECT u.task FROM unnest(w.unknown_tasks) u ORDER BY u.task COLLATE "C")
    FROM workers_listed(v_now) w ORDER BY w.name, w.started_at, w.id;
END $$;
