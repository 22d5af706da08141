-- How many messages, by channel and lane, are cancelled or rescheduled but still in a line or in ready, because the
-- dispatcher has not read the notice yet. For these channels; NULL: all.
CREATE OR REPLACE FUNCTION removals_pending (p_channels TEXT[])
RETURNS TABLE (channel TEXT, lane TEXT, n BIGINT) LANGUAGE sql STABLE AS $$
    WITH t AS MATERIALIZED (SELECT * FROM tick ORDER BY id DESC LIMIT 1),
    gone AS MATERIALIZED (
        SELECT g.*
        FROM (
            SELECT w.gone FROM t
            CROSS JOIN LATERAL (SELECT * FROM notice w WHERE (w.xid, w.id) > (t.seen_xid, t.seen_id) OFFSET 0) w
            UNION ALL
            SELECT w.gone FROM t CROSS JOIN unnest(t.open) o
            CROSS JOIN LATERAL (SELECT * FROM notice w WHERE w.xid = o.xid AND w.id > o.id OFFSET 0) w) w
        CROSS JOIN unnest(w.gone) g
        WHERE p_channels IS NULL OR g.channel = ANY (p_channels))
    SELECT x.channel, x.lane, COUNT(*)
    FROM (
        SELECT g.channel, g.lane FROM gone g
        CROSS JOIN LATERAL (
            SELECT FROM line e
            WHERE e.channel = g.channel AND e.lane = g.lane AND e.rank = g.rank AND e.at = g.at AND e.id = g.id
                AND e.generation = g.generation OFFSET 0) e
        UNION ALL
        SELECT g.channel, g.lane FROM (SELECT DISTINCT g.channel, g.lane FROM gone g) g
        CROSS JOIN t JOIN unnest(t.lanes) l ON l.name = g.lane
        CROSS JOIN LATERAL (
            SELECT r.id, r.generation FROM ready r
            WHERE r.channel = g.channel AND r.lane || '' = g.lane AND r.tag >= l.floor OFFSET 0) r
        WHERE COALESCE((r.id, r.generation) IN (SELECT v.id, v.generation FROM gone v), FALSE)) x
    GROUP BY x.channel, x.lane
$$;
