-- Remove messages that were cancelled or rescheduled from their lines. Only the dispatcher writes lines, so it never
-- has to wait. Some may be in ready, because a dispatch that did not know of the cancel, or one in the same
-- transaction, has moved them there: they are removed too, unless they are locked.
CREATE OR REPLACE FUNCTION entries_remove (p_lanes lane_state[], p_notices notice[])
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_gone entry[] := ARRAY(SELECT g FROM unnest(p_notices) w CROSS JOIN unnest(w.gone) g);
BEGIN
    WITH gone AS (
        DELETE FROM line e WHERE e.ctid = ANY (ARRAY(
            SELECT x.tid FROM unnest(v_gone) g
            CROSS JOIN LATERAL (
                SELECT e.ctid AS tid FROM line e
                WHERE e.channel = g.channel AND e.lane = g.lane AND e.rank = g.rank AND e.at = g.at AND e.id = g.id
                    AND e.generation = g.generation OFFSET 0) x))
        RETURNING e.channel, e.lane)
    UPDATE backlog b SET turn = nextval('turn'), n = b.n - x.n
    FROM (SELECT g.channel, g.lane, COUNT(*) AS n FROM gone g GROUP BY g.channel, g.lane) x
    CROSS JOIN LATERAL backlog_live(x.channel, x.lane) last
    WHERE b.ctid = last.tid;
    DELETE FROM ready r WHERE r.ctid = ANY (ARRAY(
        SELECT y.tid FROM (SELECT DISTINCT g.channel, g.lane FROM unnest(v_gone) g) g
        JOIN unnest(p_lanes) l ON l.name = g.lane
        CROSS JOIN LATERAL (
            SELECT r.ctid AS tid, r.id, r.generation FROM ready r
            WHERE r.channel = g.channel AND r.lane || '' = g.lane AND r.tag >= l.floor OFFSET 0) x
        CROSS JOIN LATERAL (SELECT r.ctid AS tid FROM ready r WHERE r.ctid = x.tid FOR UPDATE SKIP LOCKED) y
        WHERE COALESCE((x.id, x.generation) IN (SELECT v.id, v.generation FROM unnest(v_gone) v), FALSE)));
END $$;
