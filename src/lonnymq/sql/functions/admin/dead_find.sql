-- The ids of up to p_limit dead messages above p_after: of a channel, with an error LIKE p_error, of a lane or of a
-- group of dead_groups, if given. Locks nothing.
CREATE OR REPLACE FUNCTION dead_find (
    p_channel TEXT, p_error TEXT, p_after BIGINT, p_limit INT, p_lane TEXT DEFAULT NULL,
    p_fingerprint TEXT DEFAULT NULL)
RETURNS BIGINT[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM fingerprint_check(p_fingerprint);
    IF p_channel IS NULL THEN
        RETURN ARRAY(
            SELECT d.id FROM dead d
            WHERE d.id > p_after AND (p_error IS NULL OR d.error LIKE p_error) AND (p_lane IS NULL OR d.lane = p_lane)
                AND (p_fingerprint IS NULL
                    OR dead_fingerprint(d.headers ->> 'task', error_pattern(d.error)) = p_fingerprint)
            ORDER BY d.id LIMIT p_limit);
    END IF;
    -- Compared as pairs: with channel = p_channel the planner might scan the ids of all channels instead.
    RETURN ARRAY(
        SELECT d.id FROM dead d
        WHERE (d.channel, d.id) > (p_channel, p_after) AND (d.channel, d.id) <= (p_channel, 9223372036854775807)
            AND (p_error IS NULL OR d.error LIKE p_error) AND (p_lane IS NULL OR d.lane = p_lane)
            AND (p_fingerprint IS NULL
                OR dead_fingerprint(d.headers ->> 'task', error_pattern(d.error)) = p_fingerprint)
        ORDER BY d.channel, d.id LIMIT p_limit);
END $$;
