-- A dequeue found nothing: tell the dispatcher that somebody serves these lanes (NULL: all), where lanes may keep
-- slots from each other. About once a second, so that who asks again and again does not write each time.
CREATE OR REPLACE FUNCTION lanes_announce (p_all lane_state[], p_lanes TEXT[], p_now BIGINT)
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM slots) THEN
        INSERT INTO notice (asked)
        SELECT array_agg(l.name) FROM unnest(p_all) l
        WHERE (p_lanes IS NULL OR l.name = ANY (p_lanes)) AND COALESCE(l.served_at < p_now - 1000, TRUE)
        HAVING COUNT(*) > 0;
    END IF;
END $$;
