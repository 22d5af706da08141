-- Part of a refill: write down how it leaves the lines. Of a line that is at its end the next tag is remembered: if
-- its next message comes soon, it goes on from there.
CREATE OR REPLACE FUNCTION backlog_write (p_lane TEXT, p_lines line_state[])
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    UPDATE backlog b
    SET turn = nextval('turn'), tag = k.tag, is_open = k.is_open, n = CASE WHEN k.stretches = '{}' THEN 0 ELSE k.n END,
        stretches = k.stretches
    FROM unnest(p_lines) k WHERE b.ctid = k.tid;
    INSERT INTO alarm (at, channel)
    SELECT k.again_at, k.channel FROM unnest(p_lines) k
    WHERE NOT k.is_open AND k.again_at IS NOT NULL AND k.stretches <> '{}';
    INSERT INTO recent (channel, lane, tag) SELECT k.channel, p_lane, k.tag FROM unnest(p_lines) k
    WHERE k.stretches = '{}' ON CONFLICT DO NOTHING;
END $$;
