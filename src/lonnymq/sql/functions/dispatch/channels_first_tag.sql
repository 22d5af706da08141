-- The lowest tag of a line of these channels that may release: up to it, ready has all their messages. NULL: there is
-- no such line.
CREATE OR REPLACE FUNCTION channels_first_tag (l lane_state, p_channels TEXT[])
RETURNS BIGINT LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT MIN(b.tag) FROM unnest(p_channels) u (name)
        CROSS JOIN LATERAL backlog_live(u.name, l.name) b WHERE b.is_open AND b.ranges <> '{}');
END $$;
