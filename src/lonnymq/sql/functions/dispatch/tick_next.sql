-- Part of dispatch: the new tick, with the numbers that the notices give: how many messages wait, how many were served,
-- and when leases end. What was served is written to served_by, by channel, and summed up in tally once per second.
CREATE OR REPLACE FUNCTION tick_next (t tick, r notice_summary, p_notices notice[], p_now BIGINT)
RETURNS tick LANGUAGE plpgsql AS $$
DECLARE
    n tick := t;
BEGIN
    n.at := CASE WHEN p_now < t.at - 1000 THEN p_now ELSE GREATEST(p_now, t.at) END; -- the clock may have been set back
    n.started_at := pg_postmaster_start_time();
    IF p_notices IS NULL THEN
        RETURN n;
    END IF;
    n.lease_max_at := GREATEST(t.lease_max_at, r.lease_max_at);
    n.swept_at := LEAST(t.swept_at, r.lease_min_at - 1);
    n.waiting := t.waiting + r.waiting;
    n.served := t.served + r.taken;
    n.served_at := GREATEST(t.served_at, r.taken_at);
    IF r.taken = 1 THEN
        INSERT INTO served_by (shares) SELECT w.taken FROM unnest(p_notices) w WHERE w.wanted IS NOT NULL;
    ELSIF r.taken > 0 THEN
        INSERT INTO served_by (shares)
        SELECT array_agg(ROW(x.channel, x.n, x.at)::share)
        FROM (
            SELECT s.channel, SUM(s.n) AS n, MAX(s.at) AS at, ROW_NUMBER() OVER () / 500 AS part
            FROM unnest(p_notices) w CROSS JOIN unnest(w.taken) s
            WHERE w.wanted IS NOT NULL GROUP BY s.channel) x
        GROUP BY x.part;
    END IF;
    IF abs(p_now - t.tallied_at) >= 1000 THEN
        n.tallied_id := tally_update(t.tallied_id);
        IF n.tallied_id = t.tallied_id OR NOT EXISTS (SELECT FROM served_by b WHERE b.id > n.tallied_id) THEN
            n.tallied_at := p_now;          -- otherwise the next dispatch continues
        END IF;
    END IF;
    RETURN n;
END $$;
