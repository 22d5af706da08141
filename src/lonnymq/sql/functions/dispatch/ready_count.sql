-- How many entries of a lane in ready can be served now, counted up to the number that it should have.
CREATE OR REPLACE FUNCTION ready_count (l lane_state)
RETURNS INT LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT COUNT(*) FROM (
            SELECT FROM ready r
            WHERE r.lane = l.name AND r.tag >= l.floor AND r.tag <= l.horizon AND r.xmax = '0'
            ORDER BY r.tag, r.id LIMIT l.target) x);
END $$;
