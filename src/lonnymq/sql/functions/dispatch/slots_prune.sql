-- Remove free slots from the lists of these channels ('': the queue). A slot is free once no message has its id and
-- generation. Slots are looked up if the list has grown long; if it is full, once per second; and if p_is_hinted, which
-- means that a notice reported a free slot. A list that stays full gets an alarm: after a second, or, where every call
-- that frees a slot appends a notice, after as long again as it has not changed. The list of a channel that inherits
-- its limits is deleted when it is empty and the channel's bucket, if it has one, is full.
CREATE OR REPLACE FUNCTION slots_prune (p_channels TEXT[], p_is_hinted BOOLEAN, p_is_behind BOOLEAN, p_now BIGINT)
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_lanes lane_state[] := (SELECT t.lanes FROM tick t ORDER BY t.id DESC LIMIT 1);
BEGIN
    WITH candidates AS MATERIALIZED (
        SELECT u.name AS channel, s.*, p.max_concurrency AS max, p.is_own FROM unnest(p_channels) u (name)
        CROSS JOIN LATERAL channel_limits(u.name) p
        CROSS JOIN LATERAL slots_live(u.name) s
        WHERE cardinality(s.busy) > 2 * s.pruned_to + 64
            OR (cardinality(s.busy) >= p.max_concurrency OR s.out <> '{}') AND abs(p_now - s.pruned_at) >= 1000
            OR p_is_hinted AND (
                cardinality(s.out) >= LEAST(p.burst, 1000)
                OR EXISTS (SELECT FROM unnest(s.out) o WHERE o.generation < 0)
                OR (s.busy <> '{}' OR s.out <> '{}') AND (cardinality(s.busy) <= 200
                    OR cardinality(s.busy) * 2 >= p.max_concurrency))),
    looked_up AS MATERIALIZED (
        SELECT f.*, stubs_alive(f.busy) AS still, o.still AS still_out, o.is_urgent
        FROM candidates f CROSS JOIN LATERAL slots_check_out(f.channel, f.out, v_lanes, p_is_behind) o),
    pruned AS MATERIALIZED (
        SELECT x.*, c.since, a.again_at, (cardinality(x.still) >= x.max OR x.still_out <> '{}')
            AND COALESCE(x.alarm_at <= p_now OR x.alarm_at > a.again_at, TRUE) AS is_alarm,
            NOT x.is_own AND x.still = '{}' AND x.still_out = '{}' AND COALESCE(x.full_at_us <= 1000 * p_now, TRUE)
                AS is_over
        FROM looked_up x
        CROSS JOIN LATERAL (
            SELECT CASE WHEN cardinality(x.still) < cardinality(x.busy) THEN p_now ELSE x.changed_at END AS since) c
        CROSS JOIN LATERAL (
            SELECT p_now + CASE WHEN x.has_older OR x.max > 100
                    OR cardinality(v_lanes) > 1 THEN 1000 -- see lanes_free_slots
                ELSE LEAST(3600000, GREATEST(1000, p_now - c.since)) END AS again_at) a),
    again AS (
        INSERT INTO alarm (at, channel) SELECT x.again_at, x.channel FROM pruned x WHERE x.is_alarm
        UNION ALL
        SELECT p_now, x.channel FROM pruned x WHERE x.is_urgent), -- for the next dispatch
    over AS (DELETE FROM slots s WHERE s.ctid = ANY (ARRAY(SELECT x.tid FROM pruned x WHERE x.is_over)))
    UPDATE slots s
    SET turn = nextval('turn'), busy = x.still, pruned_to = cardinality(x.still), pruned_at = p_now,
        has_older = x.has_older AND x.still <> '{}', changed_at = x.since,
        alarm_at = CASE WHEN x.is_alarm THEN x.again_at ELSE x.alarm_at END, out = x.still_out
    FROM pruned x WHERE s.ctid = x.tid AND NOT x.is_over;
END $$;
