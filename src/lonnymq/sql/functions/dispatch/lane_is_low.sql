-- Whether ready should be refilled: lines have messages that can be served, and about half of the entries were taken,
-- or are now above the horizon. Costs one index probe.
CREATE OR REPLACE FUNCTION lane_is_low (l lane_state)
RETURNS BOOLEAN LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF l.horizon = 9223372036854775807 THEN -- no line may release
        RETURN FALSE;
    ELSIF l.horizon < l.low_tag THEN
        RETURN TRUE;
    END IF;
    RETURN NOT EXISTS (
        SELECT FROM ready r
        WHERE r.lane = l.name AND r.tag >= l.floor AND r.tag <= l.horizon
            AND (r.tag, r.id) <= (l.low_tag, l.low_id) AND r.xmax = '0');
END $$;
