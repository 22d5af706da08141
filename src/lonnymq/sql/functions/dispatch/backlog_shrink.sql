-- Messages were taken out of lines by others: count them off.
CREATE OR REPLACE FUNCTION backlog_shrink (p_notices notice[])
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    UPDATE backlog b SET turn = nextval('turn'), n = CASE WHEN b.stretches = '{}' THEN 0 ELSE b.n - x.n END
    FROM (
        SELECT w.channel, s.channel AS lane, SUM(s.n) AS n FROM unnest(p_notices) w CROSS JOIN unnest(w.taken) s
        WHERE w.wanted IS NULL GROUP BY w.channel, s.channel) x
    CROSS JOIN LATERAL (
        SELECT b.ctid AS tid FROM backlog b WHERE b.channel = x.channel AND b.lane = x.lane
        ORDER BY b.channel DESC, b.lane DESC, b.turn DESC LIMIT 1) last
    WHERE b.ctid = last.tid;
END $$;
