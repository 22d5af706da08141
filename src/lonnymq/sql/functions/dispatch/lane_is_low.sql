-- Whether lines have messages that could be served, and about half of what was in ready is taken; or cannot be served
-- any more, because the horizon came down. One probe.
CREATE OR REPLACE FUNCTION lane_is_low (l lane_state)
RETURNS BOOLEAN LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF l.horizon = 9223372036854775807 THEN -- no line has a message that could be served
        RETURN FALSE;
    ELSIF l.horizon < l.low_tag THEN
        RETURN TRUE;
    END IF;
    RETURN NOT EXISTS (
        SELECT FROM ready r
        WHERE r.lane = l.name AND r.tag >= l.floor AND r.tag <= l.horizon
            AND (r.tag, r.id) <= (l.low_tag, l.low_id) AND r.xmax = '0');
END $$;
