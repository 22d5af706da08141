-- Messages of limited channels, or any messages if the queue has a limit, were put into ready: add their slots. If a
-- list has grown long, its free slots are removed first. If a list is full now, or its channel has a rate, it gets an
-- alarm one second later. A channel that has no list yet inherits its limits, and had nothing in ready and no leases.
CREATE OR REPLACE FUNCTION slots_add (p_put ready[], p_now BIGINT)
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    WITH new AS MATERIALIZED (
        SELECT n.name, array_agg(ROW(e.id, e.generation)::stub) AS stubs
        FROM unnest(p_put) e CROSS JOIN LATERAL (VALUES (e.channel), ('')) n (name)
        GROUP BY n.name),
    lists AS MATERIALIZED (
        SELECT new.name, last.tid, y.is_long, y.busy, new.stubs, p.interval_us, p.burst, x.is_alarm
        FROM new
        LEFT JOIN LATERAL slots_live(new.name) last ON TRUE
        CROSS JOIN LATERAL channel_limits(new.name) p
        CROSS JOIN LATERAL (
            SELECT y.is_long, CASE WHEN y.is_long THEN stubs_alive(last.busy) ELSE last.busy END AS busy
            FROM (SELECT cardinality(last.busy) > 2 * last.pruned_to + 8 AS is_long) y OFFSET 0) y
        CROSS JOIN LATERAL (
            -- With a rate, entries are out. If their lane has no consumer, the channel's other messages wait for them:
            -- see lanes_free_slots.
            SELECT (COALESCE(COALESCE(cardinality(y.busy), 0) + cardinality(new.stubs) >= p.max_concurrency, FALSE)
                    OR p.interval_us IS NOT NULL)
                AND COALESCE(last.alarm_at <= p_now OR last.alarm_at > p_now + 1000, TRUE) AS is_alarm) x
        WHERE last.tid IS NOT NULL
            OR new.name <> '' AND COALESCE(p.max_concurrency, p.interval_us) IS NOT NULL),
    longer AS (
        UPDATE slots s
        SET turn = nextval('turn'), busy = l.busy || l.stubs, changed_at = p_now,
            pruned_to = CASE WHEN l.is_long THEN cardinality(l.busy) ELSE s.pruned_to END,
            out = CASE WHEN l.interval_us IS NOT NULL THEN s.out || l.stubs ELSE s.out END,
            alarm_at = CASE WHEN l.is_alarm THEN p_now + 1000 ELSE s.alarm_at END
        FROM lists l WHERE s.ctid = l.tid),
    made AS (
        INSERT INTO slots (channel, turn, busy, pruned_to, pruned_at, changed_at, has_older, alarm_at, interval_us,
            burst, out)
        SELECT l.name, nextval('turn'), l.stubs, 0, p_now, p_now, FALSE, CASE WHEN l.is_alarm THEN p_now + 1000 END,
            l.interval_us, CASE WHEN l.interval_us IS NOT NULL THEN l.burst END,
            CASE WHEN l.interval_us IS NOT NULL THEN l.stubs ELSE '{}' END
        FROM lists l WHERE l.tid IS NULL)
    INSERT INTO alarm (at, channel) SELECT p_now + 1000, l.name FROM lists l WHERE l.is_alarm;
END $$;
