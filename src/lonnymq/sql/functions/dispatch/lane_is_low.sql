-- Whether lines have messages that could be served, and less than half of what ready should have is left.
CREATE OR REPLACE FUNCTION lane_is_low (l lane_state)
RETURNS BOOLEAN LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF l.horizon = 9223372036854775807 THEN -- no line has a message that could be served
        RETURN FALSE;
    END IF;
    RETURN (
        SELECT COUNT(*) < (l.target + 1) / 2
        FROM (
            SELECT FROM ready r WHERE r.lane = l.name AND r.tag >= l.floor AND r.tag <= l.horizon AND r.xmax = '0'
            ORDER BY r.tag, r.id LIMIT (l.target + 1) / 2) x);
END $$;
