-- The notices that p_snapshot sees and p_tick has not read, in order: at most p_limit that are newer than the tick, and
-- at most p_limit of each transaction that was open at the tick and has committed since (late). Locks and writes
-- nothing. The newer ones are read in parts, one between each pair of transactions that are still open, so that the
-- rows of an open transaction are skipped however many there are.
CREATE OR REPLACE FUNCTION notice_read (p_tick tick, p_snapshot PG_SNAPSHOT, p_limit INT)
RETURNS TABLE (late BOOLEAN, notice notice)
LANGUAGE sql STABLE AS $$
    SELECT TRUE, w.notice
    FROM unnest(p_tick.open) o
    CROSS JOIN LATERAL (
        SELECT w AS notice FROM notice w WHERE w.xid = o.xid AND w.id > o.id ORDER BY w.xid, w.id LIMIT p_limit) w
    WHERE pg_visible_in_snapshot(o.xid, p_snapshot)
    UNION ALL
    SELECT FALSE, newer.notice
    FROM (
        SELECT w.notice
        FROM (
            SELECT b.xid, b.id, LEAD(b.xid, 1, pg_snapshot_xmax(p_snapshot)) OVER (ORDER BY b.xid, b.id) AS to_xid
            FROM (
                SELECT p_tick.seen_xid, p_tick.seen_id
                UNION ALL
                SELECT x, 9223372036854775807 FROM pg_snapshot_xip(p_snapshot) x WHERE x >= p_tick.seen_xid
            ) b (xid, id)
        ) part
        CROSS JOIN LATERAL (
            SELECT w AS notice, w.xid, w.id FROM notice w
            WHERE (w.xid, w.id) > (part.xid, part.id) AND w.xid < part.to_xid
            ORDER BY w.xid, w.id LIMIT p_limit) w
        ORDER BY w.xid, w.id LIMIT p_limit) newer
$$;
