-- Whether a message certainly waits, for its first attempt or for another one: whether one snapshot shows it in a place
-- where messages wait, and no dequeue is taking it from there. FALSE if it is leased or finished, and possibly for a
-- moment while it is moved from one place to another. FALSE, too, if a dequeue wanted it and has set it aside: its turn
-- has come, and creates that come now must not delay it any longer. Locks nothing. Leases are not read, because they
-- have no index by message.
CREATE OR REPLACE FUNCTION message_is_waiting (p_id BIGINT)
RETURNS BOOLEAN LANGUAGE plpgsql AS $$
BEGIN
    RETURN COALESCE((
        SELECT EXISTS (
                SELECT FROM scheduled s WHERE s.at = m.dequeue_at AND s.id = m.id AND s.generation = m.generation)
            OR EXISTS (
                SELECT FROM line i
                WHERE i.channel = m.channel AND i.lane = m.lane AND i.rank = -m.priority AND i.at = m.dequeue_at
                    AND i.id = m.id AND i.generation = m.generation)
            OR EXISTS (
                SELECT FROM unnest(t.lanes) n
                CROSS JOIN LATERAL (
                    SELECT r.id, r.generation FROM ready r
                    WHERE r.channel = m.channel AND r.lane || '' = n.name AND r.tag >= n.floor AND r.xmax = '0'
                    OFFSET 0) r
                WHERE n.name = m.lane AND r.id = m.id AND r.generation = m.generation)
            OR EXISTS (                     -- its notice is unread, or read in part
                SELECT FROM (SELECT * FROM notice w WHERE w.xid = m.xid OFFSET 0) w
                WHERE (m.generation = 0 AND m.id BETWEEN w.lo_id AND w.hi_id
                        OR ROW(m.id, m.generation)::stub = ANY (w.back))
                    AND ((w.xid, w.id) > (t.seen_xid, t.seen_id)
                        OR EXISTS (SELECT FROM unnest(t.open) o WHERE o.xid = w.xid AND w.id > o.id)))
            OR EXISTS (
                SELECT FROM unnest(t.spans) s
                WHERE s.xid = m.xid AND m.generation = 0 AND m.id BETWEEN s.lo_id AND s.hi_id)
            OR (m.id > t.rescan_id AND m.id <= t.rescan_to -- nor has a dispatch come to it since a restore or rebuild
                AND (pg_visible_in_snapshot(m.xid, t.rescan_snapshot)
                    OR m.xid >= pg_snapshot_xmax(pg_current_snapshot()))
                AND NOT EXISTS (SELECT FROM ready r WHERE r.channel = m.channel AND r.id = m.id)
                AND NOT EXISTS (SELECT FROM message_leases(ARRAY[m.id])))
        FROM message m CROSS JOIN (SELECT * FROM tick ORDER BY id DESC LIMIT 1) t
        WHERE m.id = p_id), FALSE);
END $$;
