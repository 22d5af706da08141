-- Whether one of the first 100 entries of a lane was taken by a dequeue that was rolled back. Consumers skip such an
-- entry, because messages that came later may belong before it; the dispatcher moves it back into its line. Also TRUE
-- if all 100 are locked and stuck_at is not set yet: there may be one behind them.
CREATE OR REPLACE FUNCTION lane_has_rollback (l lane_state)
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
