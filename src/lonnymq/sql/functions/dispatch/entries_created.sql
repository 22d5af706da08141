-- The messages that spans tell of, p_limit or so at a time: each span gets its part, so that a large one does not hold up the
-- others. Returns what is left of the spans, too.
CREATE OR REPLACE FUNCTION entries_created (p_spans span[], p_limit INT, OUT entries entry[], OUT spans span[])
LANGUAGE plpgsql AS $$
DECLARE
    v_part INT := GREATEST(1, p_limit / cardinality(p_spans));
BEGIN
    WITH got AS MATERIALIZED (
        SELECT s.ord, m.* FROM unnest(p_spans) WITH ORDINALITY s (xid, lo_id, hi_id, ord)
        CROSS JOIN LATERAL (
            SELECT m.id, m.generation, m.priority, m.dequeue_at, m.cost, m.lane, m.channel FROM message m
            WHERE m.id BETWEEN s.lo_id AND s.hi_id AND m.xid = s.xid AND m.generation = 0 ORDER BY m.id LIMIT v_part) m)
    SELECT e.entries, COALESCE(l.spans, '{}') INTO entries, spans
    FROM (
        SELECT array_agg(ROW(g.id, g.generation, -g.priority, g.dequeue_at, g.cost, g.lane, g.channel)::entry) AS entries
        FROM got g) e
    CROSS JOIN (
        SELECT array_agg(ROW(s.xid, g.last_id + 1, s.hi_id)::span) AS spans
        FROM unnest(p_spans) WITH ORDINALITY s (xid, lo_id, hi_id, ord)
        JOIN (SELECT g.ord, COUNT(*) AS n, MAX(g.id) AS last_id FROM got g GROUP BY g.ord) g
            ON g.ord = s.ord AND g.n = v_part AND g.last_id < s.hi_id) l;
END $$;
