-- The transactions the next tick must come back to: those of the last one that are still open or only partly read, those
-- that p_snapshot saw open below p_seen_xid, and the caller's own, which may append more before it commits.
CREATE OR REPLACE FUNCTION tick_open (
    p_tick tick, p_seen_xid XID8, p_snapshot PG_SNAPSHOT, p_late wake[], p_limit INT, OUT open_xids XID8[], OUT open_ids BIGINT[])
LANGUAGE plpgsql AS $$
BEGIN
    SELECT COALESCE(array_agg(x.xid), '{}'), COALESCE(array_agg(x.id), '{}') INTO open_xids, open_ids
    FROM (
        SELECT o.xid, COALESCE(l.id, o.id) AS id
        FROM unnest(p_tick.open_xids, p_tick.open_ids) o (xid, id)
        LEFT JOIN (SELECT w.xid, COUNT(*) AS n, MAX(w.id) AS id FROM unnest(p_late) w GROUP BY w.xid) l ON l.xid = o.xid
        WHERE (NOT pg_visible_in_snapshot(o.xid, p_snapshot) OR l.n = p_limit) AND o.xid <> pg_current_xact_id()
        UNION ALL
        SELECT y, 0 FROM pg_snapshot_xip(p_snapshot) y WHERE y >= p_tick.seen_xid AND y < p_seen_xid AND y <> pg_current_xact_id()
        UNION ALL
        SELECT pg_current_xact_id(), 0 WHERE pg_current_xact_id() < p_seen_xid
    ) x;
END $$;
