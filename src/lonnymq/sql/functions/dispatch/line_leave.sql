-- Messages were cancelled or rescheduled: take them out of their lines, as far as they are there. Only the dispatcher
-- writes lines, so it waits for nobody.
CREATE OR REPLACE FUNCTION line_leave (p_notices notice[])
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    WITH gone AS (
        DELETE FROM line e WHERE e.ctid = ANY (ARRAY(
            SELECT x.tid FROM unnest(p_notices) w CROSS JOIN unnest(w.gone) g
            CROSS JOIN LATERAL (
                SELECT e.ctid AS tid FROM line e
                WHERE e.channel = g.channel AND e.lane = g.lane AND e.rank = g.rank AND e.at = g.at AND e.id = g.id
                    AND e.generation = g.generation OFFSET 0) x))
        RETURNING e.channel, e.lane)
    UPDATE backlog b SET turn = nextval('turn'), n = b.n - x.n
    FROM (SELECT g.channel, g.lane, COUNT(*) AS n FROM gone g GROUP BY g.channel, g.lane) x
    CROSS JOIN LATERAL (
        SELECT b.ctid AS tid FROM backlog b WHERE b.channel = x.channel AND b.lane = x.lane
        ORDER BY b.channel DESC, b.lane DESC, b.turn DESC LIMIT 1) last
    WHERE b.ctid = last.tid;
END $$;
