-- Refuse what a worker cannot report about itself (LM010).
CREATE OR REPLACE FUNCTION worker_check (w worker)
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_wrong TEXT;
BEGIN
    v_wrong := CASE
        WHEN w.id IS NULL THEN 'p_id is NULL'
        WHEN (octet_length(w.name) BETWEEN 1 AND 255) IS NOT TRUE THEN 'p_name'
        WHEN (octet_length(w.host) <= 255) IS NOT TRUE THEN 'p_host'
        WHEN (octet_length(w.version) <= 255) IS NOT TRUE THEN 'p_version'
        WHEN w.pid IS NULL THEN 'p_pid is NULL'
        WHEN (w.concurrency >= 1 AND w.running >= 0) IS NOT TRUE THEN 'p_concurrency or p_running'
        WHEN (w.started_at <= w.seen_at AND w.started_at > 0) IS NOT TRUE THEN 'p_uptime_ms'
        WHEN (cardinality(w.tasks) <= 10000) IS NOT TRUE THEN 'p_tasks'
        WHEN cardinality(w.unknown_tasks) > 100 OR EXISTS (
            SELECT FROM unnest(w.unknown_tasks) u
            WHERE (octet_length(u.task) <= 255 AND u.messages > 0 AND u.since_at <= w.seen_at) IS NOT TRUE)
        THEN 'p_unknown_tasks' END;
    IF v_wrong IS NOT NULL THEN
        PERFORM refuse('LM010', format('a worker cannot report this: %s', v_wrong),
            'Give a name of 1 to 255 bytes, up to 10,000 tasks and up to 100 unknown tasks; see docs/sql.md.');
    END IF;
    PERFORM worker_state_check(w.state);
END $$;
