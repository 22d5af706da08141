-- After a restore or rebuild(): read the next p_limit messages by id and return those that are in no place and that no
-- notice or alarm still announces. rescan_id: where the next dispatch continues; NULL: this was the last part.
CREATE OR REPLACE FUNCTION entries_rescan (t tick, p_limit INT, OUT entries entry[], OUT rescan_id BIGINT)
LANGUAGE plpgsql AS $$
BEGIN
    WITH part AS MATERIALIZED (
        SELECT m.* FROM message m WHERE m.id > t.rescan_id AND m.id <= t.rescan_to ORDER BY m.id LIMIT p_limit),
    announced AS MATERIALIZED (             -- a dequeue found them locked, and gave them back as they were
        SELECT b.id, b.generation FROM notice w CROSS JOIN unnest(w.back) b
        WHERE (w.xid, w.id) > (t.seen_xid, t.seen_id)
        UNION ALL
        SELECT b.id, b.generation FROM unnest(t.open) o
        CROSS JOIN LATERAL (SELECT w.back FROM notice w WHERE w.xid = o.xid AND w.id > o.id OFFSET 0) w
        CROSS JOIN unnest(w.back) b
        UNION ALL
        SELECT (a.back).id, (a.back).generation FROM alarm a WHERE (a.back).id IS NOT NULL)
    SELECT array_agg(ROW(m.id, m.generation, -m.priority, m.dequeue_at, m.cost, m.lane, m.channel)::entry) FILTER (
            WHERE (pg_visible_in_snapshot(m.xid, t.rescan_snapshot) OR m.xid >= pg_snapshot_xmax(pg_current_snapshot()))
                AND COALESCE(m.id NOT IN (SELECT h.id FROM message_leases(ARRAY(SELECT p.id FROM part p)) h), TRUE)
                AND COALESCE((m.id, m.generation) NOT IN (SELECT r.id, r.generation FROM ready r), TRUE)
                AND COALESCE((m.id, m.generation) NOT IN (SELECT a.id, a.generation FROM announced a), TRUE)
                AND NOT EXISTS (SELECT FROM scheduled s WHERE s.at = m.dequeue_at AND s.id = m.id
                    AND s.generation = m.generation)
                AND NOT EXISTS (
                    SELECT FROM line e WHERE e.channel = m.channel AND e.lane = m.lane AND e.rank = -m.priority
                        AND e.at = m.dequeue_at AND e.id = m.id AND e.generation = m.generation)),
        CASE WHEN COUNT(*) = p_limit THEN MAX(m.id) END
    INTO entries, rescan_id FROM part m;
END $$;
