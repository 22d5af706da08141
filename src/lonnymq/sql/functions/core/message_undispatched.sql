-- Up to p_limit messages (NULL: all) that the dispatcher has not placed yet: their notices are unread, or read in part,
-- or the rescan after a restore or rebuild has not reached them. By one snapshot, so none of them is in another place
-- as well, except for messages that a rescan has not reached. Locks nothing.
CREATE OR REPLACE FUNCTION message_undispatched (p_limit INT)
RETURNS SETOF message LANGUAGE sql STABLE AS $$
    WITH t AS MATERIALIZED (SELECT * FROM tick ORDER BY id DESC LIMIT 1),
    unread AS (
        SELECT w.xid, w.lo_id, w.hi_id, w.back
        FROM t CROSS JOIN LATERAL (SELECT * FROM notice w WHERE (w.xid, w.id) > (t.seen_xid, t.seen_id) OFFSET 0) w
        UNION ALL
        SELECT w.xid, w.lo_id, w.hi_id, w.back
        FROM t CROSS JOIN unnest(t.open) o
        CROSS JOIN LATERAL (SELECT * FROM notice w WHERE w.xid = o.xid AND w.id > o.id OFFSET 0) w)
    SELECT m.*
    FROM (
        SELECT s.xid, s.lo_id, s.hi_id FROM t CROSS JOIN unnest(t.spans) s
        UNION ALL
        SELECT u.xid, u.lo_id, u.hi_id FROM unread u WHERE u.lo_id IS NOT NULL) s
    CROSS JOIN LATERAL (
        SELECT * FROM message m WHERE m.id BETWEEN s.lo_id AND s.hi_id AND m.xid = s.xid AND m.generation = 0
        OFFSET 0) m
    UNION ALL
    SELECT m.*
    FROM (
        SELECT b.id, b.generation FROM unread u CROSS JOIN unnest(u.back) b
        UNION ALL
        SELECT (a.back).id, (a.back).generation FROM t CROSS JOIN LATERAL (
            SELECT * FROM alarm a WHERE a.at > t.alarm_to OFFSET 0) a WHERE (a.back).id IS NOT NULL) b
    CROSS JOIN LATERAL (SELECT * FROM message m WHERE m.id = b.id AND m.generation = b.generation OFFSET 0) m
    UNION ALL
    SELECT m.*
    FROM t CROSS JOIN LATERAL (SELECT * FROM message m WHERE m.id > t.rescan_id AND m.id <= t.rescan_to OFFSET 0) m
    WHERE (pg_visible_in_snapshot(m.xid, t.rescan_snapshot) OR m.xid >= pg_snapshot_xmax(pg_current_snapshot()))
        AND COALESCE(m.id NOT IN (SELECT h.id FROM message_leases(NULL) h), TRUE)
    LIMIT p_limit
$$;
