-- Delete the entries of messages from scheduled and ready. Waits for transactions that hold them. Returns the ids of
-- the deleted entries. is_again says that somebody else deleted one meanwhile: its message may be in another place now.
-- Backlogs are not touched: only the dispatcher writes them, and a notice tells it to.
CREATE OR REPLACE FUNCTION entries_delete (p_entries entry[], OUT ids BIGINT[], OUT is_again BOOLEAN)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    WITH in_scheduled AS MATERIALIZED (
        SELECT s.tid FROM unnest(p_entries) e
        CROSS JOIN LATERAL (
            SELECT s.ctid AS tid FROM scheduled s
            WHERE s.at = e.at AND s.id = e.id AND s.generation = e.generation OFFSET 0) s),
    in_ready AS MATERIALIZED (
        SELECT r.tid
        FROM (
            SELECT r.tid, r.id, r.generation
            FROM (SELECT DISTINCT e.channel, e.lane FROM unnest(p_entries) e) e
            CROSS JOIN LATERAL (
                SELECT n.floor FROM (SELECT * FROM tick ORDER BY id DESC LIMIT 1) t CROSS JOIN unnest(t.lanes) n
                WHERE n.name = e.lane) n
            CROSS JOIN LATERAL (
                SELECT r.ctid AS tid, r.id, r.generation FROM ready r
                WHERE r.channel = e.channel AND r.lane || '' = e.lane AND r.tag >= n.floor OFFSET 0) r
            UNION
            SELECT r.tid, r.id, r.generation
            FROM ready_locked h
            CROSS JOIN LATERAL (
                SELECT r.ctid AS tid, r.id, r.generation FROM ready r
                WHERE r.lane = h.lane AND r.tag = h.tag AND r.id = h.id OFFSET 0) r) r
        WHERE COALESCE((r.id, r.generation) IN (SELECT e.id, e.generation FROM unnest(p_entries) e), FALSE)),
    off_scheduled AS (
        DELETE FROM scheduled s WHERE s.ctid = ANY (ARRAY(SELECT x.tid FROM in_scheduled x)) RETURNING s.id),
    off_ready AS (
        DELETE FROM ready s WHERE s.ctid = ANY (ARRAY(SELECT x.tid FROM in_ready x)) RETURNING s.id)
    SELECT array_agg(o.id), COUNT(*)
        < (SELECT COUNT(*) FROM in_scheduled) + (SELECT COUNT(*) FROM in_ready)
    INTO ids, is_again
    FROM (SELECT id FROM off_scheduled UNION ALL SELECT id FROM off_ready) o;
END $$;
