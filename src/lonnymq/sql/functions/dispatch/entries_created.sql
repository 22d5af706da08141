-- The messages of these spans, about p_limit per call. Spans of up to 100 messages come first. Of the larger ones, the
-- oldest gets half of p_limit and the others share the rest: so one large producer does not delay the others, and
-- messages are placed mostly in the order of their creation. Also returns what is left of the spans.
CREATE OR REPLACE FUNCTION entries_created (p_spans span[], p_limit INT, OUT entries entry[], OUT spans span[])
LANGUAGE plpgsql AS $$
DECLARE
    v_is_small BOOLEAN := cardinality(p_spans) <= p_limit AND (p_spans[1]).lo_id = (p_spans[1]).hi_id;
BEGIN
    -- Usually there are few spans of one message each. Then the id is enough, and xid need not be compared.
    IF v_is_small AND cardinality(p_spans) > 1 THEN
        v_is_small := NOT EXISTS (SELECT FROM unnest(p_spans) s WHERE s.lo_id < s.hi_id);
    END IF;
    IF v_is_small THEN
        SELECT array_agg(ROW(m.id, m.generation, -m.priority, m.dequeue_at, m.cost, m.lane, m.channel)::entry), '{}'
        INTO entries, spans
        FROM message m WHERE m.id = ANY (ARRAY(SELECT s.lo_id FROM unnest(p_spans) s)) AND m.generation = 0;
        RETURN;
    END IF;
    WITH sized AS MATERIALIZED (
        SELECT s.*, s.size <= 100 AS is_small, COUNT(*) FILTER (WHERE s.size > 100) OVER () AS n_large,
            COUNT(*) FILTER (WHERE s.size > 100) OVER (ORDER BY s.ord) AS nth_large,
            SUM(s.size) FILTER (WHERE s.size <= 100) OVER (ORDER BY s.ord) AS small_to
        FROM (
            SELECT s.*, s.hi_id - s.lo_id + 1 AS size FROM unnest(p_spans) WITH ORDINALITY s (xid, lo_id, hi_id,
                ord)) s),
    parts AS MATERIALIZED (
        SELECT s.*, CASE WHEN s.is_small THEN CASE WHEN s.small_to - s.size < 2 * p_limit THEN 100 ELSE 0 END
            WHEN s.n_large = 1 THEN p_limit WHEN s.nth_large = 1 THEN p_limit / 2 + 1
            ELSE p_limit / (2 * (s.n_large - 1)) + 1 END AS part
        FROM sized s),
    got AS MATERIALIZED (
        SELECT s.ord, m.* FROM parts s
        CROSS JOIN LATERAL (
            SELECT m.id, m.generation, m.priority, m.dequeue_at, m.cost, m.lane, m.channel FROM message m
            WHERE m.id BETWEEN s.lo_id AND s.hi_id AND m.xid = s.xid AND m.generation = 0 ORDER BY m.id
                LIMIT s.part) m),
    ends AS MATERIALIZED (SELECT g.ord, COUNT(*) AS n, MAX(g.id) AS last_id FROM got g GROUP BY g.ord)
    SELECT e.entries, COALESCE(l.spans, '{}') INTO entries, spans
    FROM (
        SELECT array_agg(ROW(g.id, g.generation, -g.priority, g.dequeue_at, g.cost, g.lane,
            g.channel)::entry) AS entries
        FROM got g) e
    CROSS JOIN (
        SELECT array_agg(ROW(s.xid, COALESCE(g.last_id + 1, s.lo_id), s.hi_id)::span ORDER BY s.ord) AS spans
        FROM parts s LEFT JOIN ends g ON g.ord = s.ord
        WHERE s.part = 0 OR g.n = s.part AND g.last_id < s.hi_id) l;
END $$;
