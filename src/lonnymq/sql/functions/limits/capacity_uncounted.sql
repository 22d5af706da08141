-- How many messages of a channel are not in its size, up to p_max.
CREATE OR REPLACE FUNCTION capacity_uncounted (p_channel TEXT, p_max BIGINT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
BEGIN
    RETURN (
        SELECT COUNT(*)
        FROM (
            SELECT FROM message m WHERE m.channel = p_channel AND NOT m.leased AND NOT m.is_counted
            UNION ALL
            SELECT FROM message m WHERE m.leased::INT = 1 AND m.channel = p_channel AND NOT m.is_counted
            LIMIT p_max) x);
END $$;
