-- Part of admitting messages: subtract departures from a channel's size. The caller has locked the size. Departures of
-- transactions that read_to sees were subtracted before. So this reads those of transactions that were open then and
-- have ended since, and those of newer transactions, at most p_limit rows of each; the rest is left for the next call.
-- Returns the new size.
CREATE OR REPLACE FUNCTION capacity_apply_departures (p_size capacity, p_limit INT)
RETURNS capacity LANGUAGE plpgsql AS $$
DECLARE
    r RECORD;
BEGIN
    IF p_size.started_at IS DISTINCT FROM pg_postmaster_start_time() THEN
        p_size.read_to := NULL;             -- after a restore, transaction ids mean nothing
    END IF;
    WITH old AS MATERIALIZED (
        SELECT d.tid, d.xid FROM pg_snapshot_xip(p_size.read_to) x
        CROSS JOIN LATERAL (
            SELECT d.ctid AS tid, d.xid FROM departure d WHERE d.channel = p_size.channel AND d.xid = x OFFSET 0) d
        WHERE pg_visible_in_snapshot(x, pg_current_snapshot()) LIMIT p_limit),
    young AS MATERIALIZED (
        SELECT d.ctid AS tid, d.xid FROM departure d
        WHERE d.channel = p_size.channel AND d.xid >= COALESCE(pg_snapshot_xmax(p_size.read_to), '0')
        ORDER BY d.channel, d.xid, d.id LIMIT p_limit),
    gone AS (
        DELETE FROM departure d
        WHERE d.ctid = ANY (ARRAY(SELECT o.tid FROM old o UNION ALL SELECT y.tid FROM young y)) RETURNING d.n)
    SELECT g.n, o.n < p_limit AS is_old_read, s.now,
        CASE WHEN y.n < p_limit THEN pg_snapshot_xmax(s.now) ELSE y.last END AS upto
    INTO r
    FROM (SELECT COALESCE(SUM(g.n), 0) AS n FROM gone g) g
    CROSS JOIN (SELECT COUNT(*) AS n FROM old) o
    CROSS JOIN (SELECT COUNT(*) AS n, MAX(y.xid) AS last FROM young y) y
    CROSS JOIN (SELECT pg_current_snapshot() AS now) s;
    p_size.size := p_size.size - r.n;
    IF r.is_old_read THEN
        -- This transaction counts as open: it may append more departures.
        SELECT format('%s:%s:%s', COALESCE(MIN(x), r.upto), r.upto, string_agg(x::TEXT, ',' ORDER BY x))::PG_SNAPSHOT
        INTO p_size.read_to
        FROM (SELECT pg_snapshot_xip(r.now) UNION SELECT pg_current_xact_id()) u (x) WHERE x < r.upto;
        p_size.started_at := pg_postmaster_start_time();
    END IF;
    RETURN p_size;
END $$;
