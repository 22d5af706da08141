-- Messages of limited channels, or any messages if the queue has a limit, were put into ready: add their slots. If a
-- list has grown long, its free slots are removed first. If a list is full now, it gets an alarm one second later.
CREATE OR REPLACE FUNCTION slots_add (p_put ready[], p_now BIGINT)
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    WITH new AS MATERIALIZED (
        SELECT n.name, array_agg(ROW(e.id, e.generation)::stub) AS stubs
        FROM unnest(p_put) e CROSS JOIN LATERAL (VALUES (e.channel), ('')) n (name)
        GROUP BY n.name),
    taken AS (
        UPDATE slots s
        SET turn = nextval('turn'), busy = y.busy || new.stubs, changed_at = p_now,
            pruned_to = CASE WHEN y.is_long THEN cardinality(y.busy) ELSE s.pruned_to END,
            out = CASE WHEN c.release_interval_ms > 0 THEN new.stubs[1] ELSE s.out END,
            alarm_at = CASE WHEN x.is_alarm THEN p_now + 1000 ELSE s.alarm_at END
        FROM new
        CROSS JOIN LATERAL slots_live(new.name) last
        LEFT JOIN LATERAL (
            SELECT c.max_concurrency AS max, c.release_interval_ms FROM channel c WHERE c.name = new.name
            UNION ALL
            SELECT q.max_concurrency, 0 FROM queue q WHERE new.name = '' OFFSET 0) c ON TRUE
        CROSS JOIN LATERAL (
            SELECT y.is_long, CASE WHEN y.is_long THEN stubs_alive(last.busy) ELSE last.busy END AS busy
            FROM (SELECT cardinality(last.busy) > 2 * last.pruned_to + 8 AS is_long) y OFFSET 0) y
        CROSS JOIN LATERAL (
            -- With a release interval one message is out. If its lane has no consumer, the others wait for it: see
            -- lanes_free_slots.
            SELECT (COALESCE(cardinality(y.busy) + cardinality(new.stubs) >= c.max, FALSE) OR c.release_interval_ms > 0)
                AND COALESCE(last.alarm_at <= p_now OR last.alarm_at > p_now + 1000, TRUE) AS is_alarm) x
        WHERE s.ctid = last.tid
        RETURNING s.channel, x.is_alarm)
    INSERT INTO alarm (at, channel) SELECT p_now + 1000, t.channel FROM taken t WHERE t.is_alarm;
END $$;
