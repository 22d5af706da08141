-- The state of a line: its row with the highest turn. An empty line may have such a row, without ranges, or none. It is
-- inlined into the queries that use it.
CREATE OR REPLACE FUNCTION backlog_live (p_channel TEXT, p_lane TEXT)
RETURNS TABLE (tid TID, turn BIGINT, tag BIGINT, is_open BOOLEAN, n BIGINT, ranges line_range[])
LANGUAGE sql STABLE AS $$
    SELECT b.ctid, b.turn, b.tag, b.is_open, b.n, b.ranges FROM backlog b
    WHERE b.channel = p_channel AND b.lane = p_lane
    ORDER BY b.channel DESC, b.lane DESC, b.turn DESC LIMIT 1
$$;
