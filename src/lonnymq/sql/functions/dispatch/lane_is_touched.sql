-- Whether one of the first 100 entries of a lane was given back by a rollback. Consumers step over it: what came
-- meanwhile may belong before it, so it is for the dispatcher to put it back. Also if all of these are held: it may be
-- behind them.
CREATE OR REPLACE FUNCTION lane_is_touched (l lane_state)
RETURNS BOOLEAN LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT COALESCE(BOOL_OR(NOT transaction_is_open(k.xmax)), FALSE)
            OR COALESCE(SUM(k.n), 0) = 100 AND l.stuck_at IS NULL
        FROM (
            SELECT r.xmax, COUNT(*) AS n
            FROM (
                SELECT r.xmax FROM ready r WHERE r.lane = l.name AND r.tag >= l.floor ORDER BY r.tag, r.id LIMIT 100) r
            WHERE r.xmax <> '0' GROUP BY r.xmax) k);
END $$;
