-- After a restore or rebuild(): the next p_limit messages in the order of ids, of those that are in no place and
-- whose notices were not left to be read then. Returns where to go on, too; NULL: that was all.
CREATE OR REPLACE FUNCTION entries_walk (t tick, p_limit INT, OUT entries entry[], OUT walk_id BIGINT)
LANGUAGE plpgsql AS $$
BEGIN
    WITH part AS MATERIALIZED (
        SELECT m.* FROM message m WHERE m.id > t.walk_id AND m.id <= t.walk_to ORDER BY m.id LIMIT p_limit)
    SELECT array_agg(ROW(m.id, m.generation, -m.priority, m.dequeue_at, m.cost, m.lane, m.channel)::entry) FILTER (
            WHERE (pg_visible_in_snapshot(m.xid, t.walk_snapshot) OR m.xid >= pg_snapshot_xmax(pg_current_snapshot()))
                AND COALESCE(m.id NOT IN (SELECT h.id FROM message_leases(ARRAY(SELECT p.id FROM part p)) h), TRUE)
                AND COALESCE((m.id, m.generation) NOT IN (SELECT r.id, r.generation FROM ready r), TRUE)
                AND NOT EXISTS (SELECT FROM scheduled s WHERE s.at = m.dequeue_at AND s.id = m.id
                    AND s.generation = m.generation)
                AND NOT EXISTS (
                    SELECT FROM line e WHERE e.channel = m.channel AND e.lane = m.lane AND e.rank = -m.priority
                        AND e.at = m.dequeue_at AND e.id = m.id AND e.generation = m.generation)),
        CASE WHEN COUNT(*) = p_limit THEN MAX(m.id) END
    INTO entries, walk_id FROM part m;
END $$;
