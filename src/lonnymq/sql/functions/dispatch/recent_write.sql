-- Remember where channels go on that were placed without a line, while others have one or messages cost more than 1
-- (p_is_kept): if their next message comes soon, it gets the tag that a line would have given it. What was remembered
-- of them before is used up: a message that got its tag has been placed. It is remembered again if that tag is far
-- ahead of virtual time, because the message may be cancelled.
CREATE OR REPLACE FUNCTION recent_write (l lane_state, p_known standing[], p_is_kept BOOLEAN)
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM recent c WHERE c.ctid = ANY (ARRAY(
        SELECT x.tid FROM unnest(p_known) k
        CROSS JOIN LATERAL (
            SELECT c.ctid AS tid FROM recent c WHERE c.channel = k.channel AND c.lane = l.name AND c.tag >= l.v
            FOR UPDATE SKIP LOCKED) x
        WHERE k.is_remembered));
    INSERT INTO recent (channel, lane, tag)
    SELECT k.channel, l.name, last.tag + tag_step(last.cost, k.step, last.id) FROM unnest(p_known) k
    CROSS JOIN LATERAL (
        SELECT r.tag, r.cost, r.id FROM ready r
        WHERE r.channel = k.channel AND r.lane || '' = l.name AND r.tag >= l.floor
        ORDER BY r.channel DESC, r.tag DESC, r.id DESC LIMIT 1) last
    WHERE NOT k.has_line AND (p_is_kept OR k.is_remembered AND k.tag > l.v + k.step)
    ON CONFLICT DO NOTHING;
END $$;
