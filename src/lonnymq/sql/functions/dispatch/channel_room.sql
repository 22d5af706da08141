-- How many more messages of these channels may be put into ready now (room; NULL: no limit), by how much a message of
-- cost 1 advances their tags (step), and, if the rate allows no more than that, when it will allow another one
-- (again_at; NULL: not before an entry is taken from ready). This is the only function that decides whether a channel
-- may release.
-- A rate is a token bucket: the entries in ready (out) and the room together are at most as many as there are tokens
-- now. When one of them is taken, later, there is still a token for it. At most 1,000 are in ready at a time, so that
-- the list stays short.
CREATE OR REPLACE FUNCTION channel_room (p_channels TEXT[], p_now BIGINT)
RETURNS TABLE (channel TEXT, room INT, step DOUBLE PRECISION, again_at BIGINT)
    LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY
    SELECT u.name,
        CASE WHEN p.paused THEN 0 ELSE LEAST(m.room, r.room) END,
        weight_step(p.weight),
        CASE WHEN NOT p.paused AND r.room <= COALESCE(m.room, r.room) AND x.out + r.room < x.most
            THEN (x.full_at_us - (p.burst - x.out - r.room - 1) * p.interval_us + 999) / 1000 END
    FROM unnest(p_channels) u (name)
    CROSS JOIN LATERAL channel_limits(u.name) p
    LEFT JOIN LATERAL slots_live(u.name) s ON TRUE
    CROSS JOIN LATERAL (
        SELECT COALESCE(cardinality(s.out), 0) AS out, LEAST(p.burst, 1000) AS most,
            GREATEST(p_now * 1000, s.full_at_us) AS full_at_us) x
    CROSS JOIN LATERAL (
        SELECT CASE WHEN p.max_concurrency IS NOT NULL
            THEN GREATEST(0, p.max_concurrency - COALESCE(cardinality(s.busy), 0)) END AS room) m
    CROSS JOIN LATERAL (                    -- the tokens: the burst, less what is missing until the bucket is full
        SELECT CASE WHEN p.interval_us IS NOT NULL
            THEN GREATEST(0, LEAST(x.most, p.burst - (x.full_at_us - p_now * 1000 + p.interval_us - 1) / p.interval_us)
                - x.out)::INT END AS room) r;
END $$;
