-- Strike slots off that came free: of channels of which one is said to have come free, or whose list is full, or has
-- grown long. A slot is free once no message has its id and generation. Where nothing says that one came free, once a
-- second. Those that stay full get an alarm.
CREATE OR REPLACE FUNCTION slots_strike (p_channels TEXT[], p_hinted TEXT[], p_now BIGINT)
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    WITH full_ones AS MATERIALIZED (
        SELECT s.* FROM unnest(p_channels) u (name)
        CROSS JOIN LATERAL (
            SELECT CASE WHEN u.name = '' THEN (SELECT q.max_concurrency FROM queue q)
                ELSE (SELECT c.max_concurrency FROM channel c WHERE c.name = u.name) END AS max) c
        CROSS JOIN LATERAL (
            SELECT s.ctid AS tid, s.* FROM slots s WHERE s.channel = u.name
                ORDER BY s.channel DESC, s.turn DESC LIMIT 1) s
        WHERE cardinality(s.busy) > 2 * s.struck_to + 64
            OR (cardinality(s.busy) >= c.max OR s.out IS NOT NULL) AND abs(p_now - s.struck_at) >= 1000
            OR s.channel = ANY (p_hinted) AND (
                s.out IS NOT NULL OR cardinality(s.busy) > 0 AND (cardinality(s.busy) <= 200
                    OR cardinality(s.busy) * 2 >= c.max))),
    again AS (
        INSERT INTO alarm (at, channel) SELECT p_now + 1000, f.channel FROM full_ones f
        WHERE COALESCE(f.alarm_at <= p_now OR f.alarm_at > p_now + 1000, TRUE)
        UNION ALL
        SELECT p_now + 1, f.channel FROM full_ones f WHERE (f.out).generation >= 0 AND NOT EXISTS (
            SELECT FROM message m WHERE m.id = (f.out).id AND m.generation = (f.out).generation)),
    struck AS MATERIALIZED (
        SELECT f.tid, f.alarm_at, f.out, ARRAY(
            SELECT b FROM unnest(f.busy) b
            CROSS JOIN LATERAL (
                SELECT FROM message m WHERE m.id = b.id AND m.generation = b.generation OFFSET 0) m) AS busy
        FROM full_ones f)
    UPDATE slots s
    SET turn = nextval('turn'), busy = x.busy, struck_to = cardinality(x.busy), struck_at = p_now, 
        alarm_at = CASE WHEN COALESCE(x.alarm_at <= p_now OR x.alarm_at > p_now + 1000, TRUE) THEN p_now + 1000
            ELSE x.alarm_at END,
        -- What was next is gone: served, and then the next dispatch reads the notice of that, or else cancelled.
        out = CASE WHEN x.out = ANY (x.busy) THEN x.out WHEN (x.out).generation >= 0 THEN ROW((x.out).id, -1)::stub END
    FROM struck x WHERE s.ctid = x.tid;
END $$;
