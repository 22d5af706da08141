-- Ask workers to pause, to serve again or to drain: those whose name or host is p_name, in which * stands for any
-- characters. p_state: 'paused', 'serving' or 'draining'. A worker learns of it with its next report. A paused worker
-- finishes what it runs and leases no more messages; one that drains does the same and stops. Waits for reports.
-- Returns the workers that were asked, as worker_list lists them, and whether each is alive.
CREATE OR REPLACE FUNCTION worker_request (p_name TEXT, p_state TEXT)
RETURNS TABLE (id UUID, name TEXT, is_alive BOOLEAN)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    v_now BIGINT := clock_ms();
    v_pattern TEXT := replace(regexp_replace(p_name, '([\\%_])', '\\\1', 'g'), '*', '%');
    v_ids UUID[];
BEGIN
    PERFORM unbound_check('worker_request');
    PERFORM worker_state_check(p_state);
    IF p_name IS NULL THEN
        PERFORM refuse('LM010', 'the name of the worker is NULL', 'Give a name or a host, or * for all workers.');
    END IF;
    -- In the order of ids, so that two calls never deadlock.
    v_ids := ARRAY(
        SELECT w.id FROM worker w WHERE w.name LIKE v_pattern OR w.host LIKE v_pattern ORDER BY w.id FOR UPDATE);
    UPDATE worker w SET requested = p_state WHERE w.id = ANY (v_ids);
    RETURN QUERY
    SELECT w.id, w.name, w.id IN (SELECT l.id FROM workers_live(v_now) l)
    FROM workers_listed(v_now) w WHERE w.id = ANY (v_ids) ORDER BY w.name, w.started_at, w.id;
END $$;
