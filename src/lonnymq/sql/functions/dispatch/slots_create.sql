-- Write new lists of slots for channels that have a limit ('': the queue): everything that is in ready or leased, in
-- one snapshot. If a channel has a rate, an entry that is still in ready has been taken by an open dequeue, so it
-- counts as out; so does one that was out and whose notice is not read yet. With the same interval as before, the
-- bucket stays as it is. Otherwise as many tokens are missing now as before, parts of a token included, at most the
-- burst. If the channel sets the rate itself, at least one is missing since the last release that is known.
CREATE OR REPLACE FUNCTION slots_create (p_channels TEXT[], p_now BIGINT)
RETURNS VOID LANGUAGE plpgsql SET enable_hashjoin TO on AS $$ -- for arrays and CTEs
BEGIN
    WITH lately AS MATERIALIZED (
        SELECT x.channel, MAX(x.at) AS at FROM served_by b CROSS JOIN unnest(b.shares) x GROUP BY x.channel),
    busy AS MATERIALIZED (
        SELECT n.name, array_agg(ROW(x.id, x.generation)::stub) AS stubs, MAX(x.at) AS at,
            array_agg(ROW(x.id, x.generation)::stub) FILTER (WHERE x.at IS NULL) AS out
        FROM (
            SELECT r.channel, r.id, r.generation, NULL::BIGINT AS at FROM ready r
            UNION
            SELECT m.channel, s.id, s.generation, l.dequeued_at FROM lease l CROSS JOIN LATERAL unnest(l.stubs) s
            CROSS JOIN LATERAL (
                SELECT m.channel FROM message m WHERE m.id = s.id AND m.generation = s.generation OFFSET 0) m) x
        CROSS JOIN LATERAL (VALUES (x.channel), ('')) n (name) GROUP BY n.name),
    old AS MATERIALIZED (
        SELECT u.name, GREATEST(s.released_at, y.served_at) AS at, s.interval_us, s.full_at_us, s.out
        FROM (SELECT DISTINCT unnest(p_channels) AS name) u
        LEFT JOIN LATERAL slots_live(u.name) s ON TRUE
        LEFT JOIN LATERAL (SELECT y.served_at FROM tally y WHERE y.channel = u.name OFFSET 0) y ON TRUE),
    gone AS (DELETE FROM slots s WHERE s.channel = ANY (p_channels)),
    made AS (
        INSERT INTO slots (channel, turn, busy, pruned_to, pruned_at, changed_at, has_older, alarm_at, interval_us,
            burst, released_at, full_at_us, out)
        SELECT o.name, nextval('turn'), COALESCE(b.stubs, '{}'), COALESCE(cardinality(b.stubs), 0), p_now, p_now,
            b.stubs IS NOT NULL, CASE WHEN b.stubs IS NOT NULL OR o.out <> '{}' THEN p_now + 1000 END, p.interval_us,
            CASE WHEN p.interval_us IS NOT NULL THEN p.burst END, x.released_at,
            CASE WHEN o.interval_us = p.interval_us
                THEN CASE WHEN o.full_at_us IS NOT NULL
                    THEN LEAST(o.full_at_us, 1000 * x.released_at + p.burst * p.interval_us) END
                ELSE GREATEST(1000 * x.released_at + p.is_own::INT * p.interval_us, 1000 * p_now + LEAST(
                    p.burst * p.interval_us,
                    COALESCE(CEIL((o.full_at_us - 1000 * p_now)::NUMERIC * p.interval_us / o.interval_us), 0)::BIGINT))
                END,
            CASE WHEN p.interval_us IS NOT NULL THEN COALESCE(b.out, '{}') || slots_out_unread(o.out, b.out)
                ELSE '{}' END
        FROM old o LEFT JOIN busy b ON b.name = o.name LEFT JOIN lately w ON w.channel = o.name
        CROSS JOIN LATERAL channel_limits(o.name) p
        CROSS JOIN LATERAL (SELECT GREATEST(o.at, w.at, b.at) AS at) r
        CROSS JOIN LATERAL (                -- a release in the future is from before the clock was set back
            SELECT CASE WHEN r.at > p_now + 1000 THEN p_now ELSE r.at END AS released_at) x
        RETURNING channel, alarm_at)
    INSERT INTO alarm (at, channel) SELECT m.alarm_at, m.channel FROM made m WHERE m.alarm_at IS NOT NULL;
END $$;
