-- Remember where channels go on that were placed without a line, while others have one or messages cost more than 1:
-- if their next message comes soon, it gets the tag that a line would have given it.
CREATE OR REPLACE FUNCTION recent_add (l lane_state, p_entries entry[], p_known standing[])
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO recent (channel, lane, tag)
    SELECT k.channel, l.name, last.tag + tag_step(last.cost, k.step, last.id) FROM unnest(p_known) k
    CROSS JOIN LATERAL (
        SELECT r.tag, r.cost, r.id FROM ready r
        WHERE r.channel = k.channel AND r.lane || '' = l.name AND r.tag >= l.floor
        ORDER BY r.channel DESC, r.tag DESC, r.id DESC LIMIT 1) last
    WHERE NOT k.has_line
    ON CONFLICT DO NOTHING;
END $$;
