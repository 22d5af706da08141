-- Whether the first entry of a lane was given back by a rollback. Consumers step over it: what came meanwhile may
-- belong before it, so it is for the dispatcher to put it back.
CREATE OR REPLACE FUNCTION lane_is_touched (l lane_state)
RETURNS BOOLEAN LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM (
            SELECT r.xmax AS xid FROM ready r WHERE r.lane = l.name AND r.tag >= l.floor ORDER BY r.tag, r.id LIMIT 1) r
        WHERE r.xid <> '0' AND r.xid::TEXT::NUMERIC <> ALL (ARRAY( -- who is still at work holds it
            SELECT x::TEXT::NUMERIC % 4294967296 FROM pg_snapshot_xip(pg_current_snapshot()) x)));
END $$;
