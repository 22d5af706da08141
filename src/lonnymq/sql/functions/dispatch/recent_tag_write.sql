-- After messages were put into ready directly: remember the next tag of their channels if p_is_kept, which means that
-- other channels have lines or that messages cost more than 1. A message that comes soon then gets the tag that a line
-- would have given it. An older remembered tag is used up and deleted. If that tag was far ahead of virtual time, the
-- next tag is remembered in any case, because the message that was placed may be cancelled.
CREATE OR REPLACE FUNCTION recent_tag_write (l lane_state, p_channels channel_state[], p_is_kept BOOLEAN)
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM recent_tag c WHERE c.ctid = ANY (ARRAY(
        SELECT x.tid FROM unnest(p_channels) k
        CROSS JOIN LATERAL (
            SELECT c.ctid AS tid FROM recent_tag c WHERE c.channel = k.channel AND c.lane = l.name AND c.tag >= l.v
            FOR UPDATE SKIP LOCKED) x
        WHERE k.is_remembered));
    INSERT INTO recent_tag (channel, lane, tag)
    SELECT k.channel, l.name, last.tag + tag_step(last.cost, k.step, last.id) FROM unnest(p_channels) k
    CROSS JOIN LATERAL (
        SELECT r.tag, r.cost, r.id FROM ready r
        WHERE r.channel = k.channel AND r.lane || '' = l.name AND r.tag >= l.floor
        ORDER BY r.channel DESC, r.tag DESC, r.id DESC LIMIT 1) last
    WHERE NOT k.has_line AND (p_is_kept OR k.is_remembered AND k.tag > l.v + k.step)
    ON CONFLICT DO NOTHING;
END $$;
