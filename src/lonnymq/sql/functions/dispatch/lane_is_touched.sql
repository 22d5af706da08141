-- Whether one of the first entries of a lane was given back by a rollback. Consumers step over it: what came meanwhile
-- may belong before it, so it is for the dispatcher to put it back. Also if all of these are held: it may be behind
-- them.
CREATE OR REPLACE FUNCTION lane_is_touched (l lane_state)
RETURNS BOOLEAN LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_next BIGINT := pg_snapshot_xmax(pg_current_snapshot())::TEXT::BIGINT;
BEGIN
    RETURN (
        SELECT COALESCE(BOOL_OR(s IS DISTINCT FROM 'in progress'), FALSE) OR COUNT(*) = 10 AND l.stuck_at IS NULL
        FROM (
            SELECT r.xmax::TEXT::BIGINT AS xid FROM ready r WHERE r.lane = l.name AND r.tag >= l.floor
            ORDER BY r.tag, r.id LIMIT 10) r
        CROSS JOIN LATERAL pg_xact_status(  -- xmax has the last 32 bits of a transaction's number
            (v_next + (((r.xid - v_next) & 4294967295) # 2147483648) - 2147483648)::TEXT::XID8) s
        WHERE r.xid <> 0);
END $$;
