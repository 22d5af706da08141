-- Strike slots off that came free: of channels of which one is said to have come free (p_is_hinted), or whose list is
-- full, or has grown long. A slot is free once no message has its id and generation. Where nothing says that one came
-- free, once a second. Those that stay full get an alarm: after a second; after as long as nothing has
-- changed, where everybody gives notice who frees a slot.
CREATE OR REPLACE FUNCTION slots_strike (p_channels TEXT[], p_is_hinted BOOLEAN, p_is_behind BOOLEAN, p_now BIGINT)
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_has_lanes BOOLEAN := (SELECT cardinality(t.lanes) > 1 FROM tick t ORDER BY t.id DESC LIMIT 1); -- see lanes_yield
BEGIN
    WITH full_ones AS MATERIALIZED (
        SELECT s.*, c.max FROM unnest(p_channels) u (name)
        CROSS JOIN LATERAL (
            SELECT CASE WHEN u.name = '' THEN (SELECT q.max_concurrency FROM queue q)
                ELSE (SELECT c.max_concurrency FROM channel c WHERE c.name = u.name) END AS max) c
        CROSS JOIN LATERAL (
            SELECT s.ctid AS tid, s.* FROM slots s WHERE s.channel = u.name
            ORDER BY s.channel DESC, s.turn DESC LIMIT 1) s
        WHERE cardinality(s.busy) > 2 * s.struck_to + 64
            OR (cardinality(s.busy) >= c.max OR s.out IS NOT NULL) AND abs(p_now - s.struck_at) >= 1000
            OR p_is_hinted AND (
                s.out IS NOT NULL OR cardinality(s.busy) > 0 AND (cardinality(s.busy) <= 200
                    OR cardinality(s.busy) * 2 >= c.max))),
    looked_up AS MATERIALIZED (
        SELECT f.*, ARRAY(
            SELECT b FROM unnest(f.busy) b
            CROSS JOIN LATERAL (
                SELECT FROM message m WHERE m.id = b.id AND m.generation = b.generation OFFSET 0) m) AS still
        FROM full_ones f),
    struck AS MATERIALIZED (
        SELECT x.*, c.since, a.again_at, (cardinality(x.still) >= x.max OR x.out IS NOT NULL)
            AND COALESCE(x.alarm_at <= p_now OR x.alarm_at > a.again_at, TRUE) AS is_alarm
        FROM looked_up x
        CROSS JOIN LATERAL (
            SELECT CASE WHEN cardinality(x.still) < cardinality(x.busy) THEN p_now ELSE x.changed_at END AS since) c
        CROSS JOIN LATERAL (
            SELECT p_now + CASE WHEN x.is_quiet OR x.max > 100 OR v_has_lanes THEN 1000
                ELSE LEAST(3600000, GREATEST(1000, p_now - c.since)) END AS again_at) a),
    again AS (
        INSERT INTO alarm (at, channel) SELECT x.again_at, x.channel FROM struck x WHERE x.is_alarm
        UNION ALL
        SELECT p_now, x.channel FROM struck x -- for the next dispatch
        WHERE x.out <> ALL (x.still) AND ((x.out).generation >= 0 OR p_is_behind))
    UPDATE slots s
    SET turn = nextval('turn'), busy = x.still, struck_to = cardinality(x.still), struck_at = p_now,
        is_quiet = x.is_quiet AND x.still <> '{}', changed_at = x.since,
        alarm_at = CASE WHEN x.is_alarm THEN x.again_at ELSE x.alarm_at END,
        -- What was next is gone: served, and then a dispatch to come reads the notice of that, or else cancelled.
        out = CASE WHEN x.out = ANY (x.still) THEN x.out
            WHEN (x.out).generation >= 0 OR p_is_behind AND x.out IS NOT NULL THEN ROW((x.out).id, -1)::stub END
    FROM struck x WHERE s.ctid = x.tid;
END $$;
