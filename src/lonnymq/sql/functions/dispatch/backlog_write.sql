-- Part of lane_refill: store the new states of the lines. If a line is now empty, its next tag is kept in recent_tag,
-- so that the channel's next message continues from there if it comes soon.
CREATE OR REPLACE FUNCTION backlog_write (p_lane TEXT, p_lines line_state[])
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    UPDATE backlog b
    SET turn = nextval('turn'), tag = k.tag, is_open = k.is_open, n = CASE WHEN k.ranges = '{}' THEN 0 ELSE k.n END,
        ranges = k.ranges
    FROM unnest(p_lines) k WHERE b.ctid = k.tid;
    INSERT INTO alarm (at, channel)
    SELECT k.again_at, k.channel FROM unnest(p_lines) k
    WHERE NOT k.is_open AND k.again_at IS NOT NULL AND k.ranges <> '{}';
    INSERT INTO recent_tag (channel, lane, tag) SELECT k.channel, p_lane, k.tag FROM unnest(p_lines) k
    WHERE k.ranges = '{}' ON CONFLICT DO NOTHING;
END $$;
