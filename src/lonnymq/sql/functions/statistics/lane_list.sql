-- The lanes, by name, as of the last dispatch: how many due messages wait in each, and how many of these are in ready.
-- Scheduled messages are not counted. Reads one row per channel that has a line.
CREATE OR REPLACE FUNCTION lane_list ()
RETURNS TABLE (lane TEXT, waiting BIGINT, ready BIGINT)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    v_lanes lane_state[] := (SELECT t.lanes FROM tick t ORDER BY t.id DESC LIMIT 1);
BEGIN
    PERFORM unbound_check('lane_list');
    RETURN QUERY
    WITH line AS MATERIALIZED (
        SELECT x.lane, SUM(x.n)::BIGINT AS n
        FROM (SELECT b.lane, b.n FROM backlog b UNION ALL SELECT v.lane, -v.n FROM removals_pending(NULL) v) x
        GROUP BY x.lane)
    SELECT l.name, r.n + COALESCE((SELECT i.n FROM line i WHERE i.lane = l.name), 0), r.n
    FROM unnest(v_lanes) l
    CROSS JOIN LATERAL (SELECT COUNT(*) AS n FROM ready r WHERE r.lane = l.name AND r.tag >= l.floor) r
    ORDER BY l.name COLLATE "C";
END $$;
