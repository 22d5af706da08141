-- How many entries a lane has in ready that could be served; those beyond what it should have are not counted.
CREATE OR REPLACE FUNCTION lane_live (l lane_state)
RETURNS INT LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT COUNT(*) FROM (
            SELECT FROM ready r
            WHERE r.lane = l.name AND r.tag >= l.floor AND r.tag <= l.horizon AND r.xmax = '0'
            ORDER BY r.tag, r.id LIMIT l.target) x);
END $$;
