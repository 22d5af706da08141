-- How many more messages of these channels may be put into ready now (room; NULL: no limit), by how much a message of
-- cost 1 advances their tags (step), and when to look again if a release interval is what stops them (again_at). This
-- is the only function that decides whether a channel may release.
CREATE OR REPLACE FUNCTION channel_room (p_channels TEXT[], p_now BIGINT)
RETURNS TABLE (channel TEXT, room INT, step DOUBLE PRECISION, again_at BIGINT)
    LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY
    SELECT u.name,
        CASE WHEN c.paused THEN 0 ELSE LEAST(
            CASE WHEN c.max_concurrency IS NOT NULL THEN GREATEST(0, c.max_concurrency - cardinality(s.busy)) END,
            CASE WHEN c.release_interval_ms > 0 THEN
                CASE WHEN s.out IS NOT NULL OR x.free_at > p_now THEN 0 ELSE 1 END END) END,
        weight_step(c.weight),
        CASE WHEN s.out IS NULL AND x.free_at > p_now THEN x.free_at END
    FROM unnest(p_channels) u (name)
    LEFT JOIN LATERAL (SELECT * FROM channel c WHERE c.name = u.name OFFSET 0) c ON TRUE
    LEFT JOIN LATERAL slots_live(u.name) s ON TRUE
    CROSS JOIN LATERAL (
        SELECT -- A time in the future is from before the clock was set back, and counts as now.
            CASE WHEN c.release_interval_ms > 0
                THEN CASE WHEN s.released_at > p_now + 1000 THEN p_now
                    ELSE s.released_at END + c.release_interval_ms END AS free_at) x;
END $$;
