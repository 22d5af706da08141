-- A dequeue found nothing: write a notice that these lanes (NULL: all) have a consumer. It matters only where lanes
-- share the slots of a limit, and it is written about once per second, so that a consumer that polls does not write
-- every time.
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
