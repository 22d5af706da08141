-- The tasks that live workers have met recently and do not know, by name: how many messages they have met, since when,
-- how many workers have met them, and whether another live worker knows the task. '' stands for messages without a
-- task. A message that several workers have met is counted several times.
CREATE OR REPLACE FUNCTION unknown_task_list ()
RETURNS TABLE (task TEXT, messages BIGINT, since_at BIGINT, workers BIGINT, is_known BOOLEAN)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    v_now BIGINT := clock_ms();
BEGIN
    PERFORM unbound_check('unknown_task_list');
    RETURN QUERY
    SELECT u.task, SUM(u.messages)::BIGINT, MIN(u.since_at), COUNT(*),
        EXISTS (SELECT FROM workers_live(v_now) k WHERE u.task = ANY (k.tasks))
    FROM workers_live(v_now) w CROSS JOIN LATERAL unnest(w.unknown_tasks) u
    GROUP BY u.task ORDER BY u.task COLLATE "C";
END $$;
