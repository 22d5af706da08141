-- Remove free slots from the lists of these channels ('': the queue). A slot is free once no message has its id and
-- generation. Slots are looked up if the list has grown long; if it is full, once per second; and if p_is_hinted, which
-- means that a notice reported a free slot. A list that stays full gets an alarm: after a second, or, where every call
-- that frees a slot appends a notice, after as long as nothing has changed.
CREATE OR REPLACE FUNCTION slots_prune (p_channels TEXT[], p_is_hinted BOOLEAN, p_is_behind BOOLEAN, p_now BIGINT)
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_has_lanes BOOLEAN := ( -- see lanes_free_slots
        SELECT cardinality(t.lanes) > 1 FROM tick t ORDER BY t.id DESC LIMIT 1);
BEGIN
    WITH candidates AS MATERIALIZED (
        SELECT u.name AS channel, s.*, c.max FROM unnest(p_channels) u (name)
        CROSS JOIN LATERAL (
            SELECT CASE WHEN u.name = '' THEN (SELECT q.max_concurrency FROM queue q)
                ELSE (SELECT c.max_concurrency FROM channel c WHERE c.name = u.name) END AS max) c
        CROSS JOIN LATERAL slots_live(u.name) s
        WHERE cardinality(s.busy) > 2 * s.pruned_to + 64
            OR (cardinality(s.busy) >= c.max OR s.out IS NOT NULL) AND abs(p_now - s.pruned_at) >= 1000
            OR p_is_hinted AND (
                s.out IS NOT NULL OR cardinality(s.busy) > 0 AND (cardinality(s.busy) <= 200
                    OR cardinality(s.busy) * 2 >= c.max))),
    looked_up AS MATERIALIZED (
        SELECT f.*, stubs_alive(f.busy) AS still FROM candidates f),
    pruned AS MATERIALIZED (
        SELECT x.*, c.since, a.again_at, (cardinality(x.still) >= x.max OR x.out IS NOT NULL)
            AND COALESCE(x.alarm_at <= p_now OR x.alarm_at > a.again_at, TRUE) AS is_alarm
        FROM looked_up x
        CROSS JOIN LATERAL (
            SELECT CASE WHEN cardinality(x.still) < cardinality(x.busy) THEN p_now ELSE x.changed_at END AS since) c
        CROSS JOIN LATERAL (
            SELECT p_now + CASE WHEN x.has_older OR x.max > 100 OR v_has_lanes THEN 1000
                ELSE LEAST(3600000, GREATEST(1000, p_now - c.since)) END AS again_at) a),
    again AS (
        INSERT INTO alarm (at, channel) SELECT x.again_at, x.channel FROM pruned x WHERE x.is_alarm
        UNION ALL
        SELECT p_now, x.channel FROM pruned x -- for the next dispatch
        WHERE x.out <> ALL (x.still) AND ((x.out).generation >= 0 OR p_is_behind))
    UPDATE slots s
    SET turn = nextval('turn'), busy = x.still, pruned_to = cardinality(x.still), pruned_at = p_now,
        has_older = x.has_older AND x.still <> '{}', changed_at = x.since,
        alarm_at = CASE WHEN x.is_alarm THEN x.again_at ELSE x.alarm_at END,
        -- If the message that was out is gone, it was either served, and a later dispatch reads the notice of that, or
        -- cancelled. Generation -1 means: wait for one more dispatch before deciding.
        out = CASE WHEN x.out = ANY (x.still) THEN x.out
            WHEN (x.out).generation >= 0 OR p_is_behind AND x.out IS NOT NULL THEN ROW((x.out).id, -1)::stub END
    FROM pruned x WHERE s.ctid = x.tid;
END $$;
