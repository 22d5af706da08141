-- Part of maintain, which has locked maintenance: look at the next p_limit rows of progress, in the order of messages,
-- and delete those whose attempt is over, except for those that somebody is replacing. After the last one, the next
-- look begins a minute later. Returns how many were deleted.
CREATE OR REPLACE FUNCTION progress_delete (p_maintenance maintenance, p_now BIGINT, p_limit INT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    v_seen BIGINT;
    v_last BIGINT;
    v_over TID[];
    v_count BIGINT;
BEGIN
    IF p_maintenance.progress_at BETWEEN p_now - 60000 AND p_now THEN
        RETURN 0;
    END IF;
    SELECT COUNT(*), MAX(p.id),
        array_agg(p.tid) FILTER (WHERE NOT EXISTS (
            SELECT FROM message m WHERE m.id = p.id AND m.generation = p.generation))
    INTO v_seen, v_last, v_over
    FROM (
        SELECT x.ctid AS tid, x.id, x.generation FROM progress x WHERE x.id > p_maintenance.progress_id
            ORDER BY x.id, x.turn LIMIT p_limit) p;
    DELETE FROM progress p WHERE p.ctid = ANY (ARRAY(
        SELECT x.ctid FROM progress x WHERE x.ctid = ANY (v_over) FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_count = ROW_COUNT;
    UPDATE maintenance SET progress_id = CASE WHEN v_seen = p_limit THEN v_last ELSE 0 END,
        progress_at = CASE WHEN v_seen = p_limit THEN progress_at ELSE p_now END;
    RETURN v_count;
END $$;
