-- How many messages of lines, by channel and lane, are cancelled or rescheduled, and not yet taken out of their line:
-- the dispatcher has not read the notice of that. Of the given channels; NULL: of all.
CREATE OR REPLACE FUNCTION line_void (p_channels TEXT[])
RETURNS TABLE (channel TEXT, lane TEXT, n BIGINT) LANGUAGE sql STABLE AS $$
    WITH t AS MATERIALIZED (SELECT * FROM tick ORDER BY id DESC LIMIT 1),
    gone AS (
        SELECT w.gone FROM t
        CROSS JOIN LATERAL (SELECT * FROM notice w WHERE (w.xid, w.id) > (t.seen_xid, t.seen_id) OFFSET 0) w
        UNION ALL
        SELECT w.gone FROM t CROSS JOIN unnest(t.open) o
        CROSS JOIN LATERAL (SELECT * FROM notice w WHERE w.xid = o.xid AND w.id > o.id OFFSET 0) w)
    SELECT e.channel, e.lane, COUNT(*)
    FROM gone CROSS JOIN unnest(gone.gone) g
    CROSS JOIN LATERAL (
        SELECT e.channel, e.lane FROM line e
        WHERE e.channel = g.channel AND e.lane = g.lane AND e.rank = g.rank AND e.at = g.at AND e.id = g.id
            AND e.generation = g.generation OFFSET 0) e
    WHERE p_channels IS NULL OR e.channel = ANY (p_channels)
    GROUP BY e.channel, e.lane
$$;
