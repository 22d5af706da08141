-- The transactions to which the next dispatch must come back: those in the last tick that are still open or only partly
-- read, those that were open in p_snapshot below p_seen_xid, and the caller's own, which may append more before it
-- commits.
CREATE OR REPLACE FUNCTION tick_open_transactions (
    p_tick tick, p_seen_xid XID8, p_snapshot PG_SNAPSHOT, p_read notice[], p_limit INT)
RETURNS open_transaction[] LANGUAGE plpgsql AS $$
DECLARE
    v_own XID8 := pg_current_xact_id();
BEGIN
    IF p_tick.open = '{}' AND pg_snapshot_xmin(p_snapshot) = pg_snapshot_xmax(p_snapshot) AND v_own >= p_seen_xid THEN
        RETURN '{}';                        -- no other transaction was open
    END IF;
    RETURN ARRAY(
        SELECT ROW(o.xid, COALESCE(l.id, o.id))::open_transaction
        FROM unnest(p_tick.open) o
        CROSS JOIN LATERAL (SELECT COUNT(*) AS n, MAX(w.id) AS id FROM unnest(p_read) w WHERE w.xid = o.xid) l
        WHERE (NOT pg_visible_in_snapshot(o.xid, p_snapshot) OR l.n = p_limit) AND o.xid <> v_own
        UNION ALL
        SELECT ROW(y, 0)::open_transaction FROM pg_snapshot_xip(p_snapshot) y
        WHERE y >= p_tick.seen_xid AND y < p_seen_xid AND y <> v_own
        UNION ALL
        SELECT ROW(v_own, COALESCE(GREATEST(
            (SELECT MAX(w.id) FROM unnest(p_read) w WHERE w.xid = v_own),
            (SELECT MAX(o.id) FROM unnest(p_tick.open) o WHERE o.xid = v_own),
            CASE WHEN p_tick.seen_xid = v_own THEN p_tick.seen_id END), 0))::open_transaction
        WHERE v_own < p_seen_xid);
END $$;
