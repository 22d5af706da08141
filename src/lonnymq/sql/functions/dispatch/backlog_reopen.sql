-- Lines of channels that are to be looked at again may release, until the refill finds that they may not. They join
-- in at the lane's virtual time, if that has passed them.
CREATE OR REPLACE FUNCTION backlog_reopen (l lane_state, p_channels TEXT[])
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    UPDATE backlog b SET turn = nextval('turn'), is_open = TRUE, tag = GREATEST(b.tag, l.v)
    WHERE b.ctid = ANY (ARRAY(
        SELECT x.tid FROM unnest(p_channels) u (name)
        CROSS JOIN LATERAL (
            SELECT b.ctid AS tid, b.is_open, b.tag, b.stretches FROM backlog b WHERE b.channel = u.name
                AND b.lane = l.name
            ORDER BY b.channel DESC, b.lane DESC, b.turn DESC LIMIT 1) x
        WHERE (NOT x.is_open OR x.tag < l.v) AND x.stretches <> '{}'));
END $$;
