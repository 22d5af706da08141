-- The first p_limit waiting messages from a position on, of one lane or of all (NULL), in the order of list_placed,
-- including those that are not dispatched yet. These get the rank that list_placed would give them, so that a position
-- means the same for both.
CREATE OR REPLACE FUNCTION list_waiting (
    p_channel TEXT, p_status TEXT, p_from TEXT, p_rank SMALLINT, p_at BIGINT, p_id BIGINT, p_limit INT,
    p_lane TEXT)
RETURNS SETOF entry LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_now BIGINT := clock_ms();
    v_from TEXT := COALESCE(p_channel, p_from);
BEGIN
    RETURN QUERY
    SELECT x.*
    FROM (
        SELECT * FROM list_placed(p_channel, p_status, v_from, p_rank, p_at, p_id, v_now, p_limit, p_lane)
        UNION ALL
        SELECT u.id, u.generation, CASE WHEN u.at > v_now THEN 32767 ELSE u.rank END::SMALLINT,
            u.at, u.cost, u.lane, u.channel
        FROM list_undispatched(CASE WHEN p_channel IS NOT NULL THEN ARRAY[p_channel] END, 10000, v_now) u
        WHERE (p_status = CASE WHEN u.at > v_now THEN 'scheduled' ELSE 'due' END OR p_status = 'waiting')
            AND (p_lane IS NULL OR u.lane = p_lane)) x
    WHERE (x.channel COLLATE "C", x.rank, x.at, x.id) >= (v_from COLLATE "C", p_rank, p_at, p_id)
    ORDER BY x.channel COLLATE "C", x.rank, x.at, x.id LIMIT p_limit;
END $$;
