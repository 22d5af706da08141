-- How many messages of a channel are not counted in its size, up to p_max.
CREATE OR REPLACE FUNCTION capacity_count_uncounted (p_channel TEXT, p_max BIGINT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT COUNT(*) FROM (SELECT FROM channel_messages(p_channel) m WHERE NOT m.is_counted LIMIT p_max) x);
END $$;
