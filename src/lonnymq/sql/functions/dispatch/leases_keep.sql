-- Part of leases_sweep: update the leases that ran out. A lease that has no message left is deleted. The others keep
-- the messages that somebody else has locked, for one more second, and those that did not fit into this call (p_left),
-- for the next one. Returns the time up to which no expired lease is left (NULL: none is left at all), and the latest
-- end of those that were kept.
CREATE OR REPLACE FUNCTION leases_keep (
    p_leases lease[], p_left BIGINT[], p_now BIGINT, OUT swept_at BIGINT, OUT kept_to BIGINT)
LANGUAGE plpgsql AS $$
BEGIN
    WITH rest AS MATERIALIZED (
        SELECT x.tid, stubs_alive(l.stubs) AS kept
        FROM unnest(p_leases) l
        CROSS JOIN LATERAL (
            SELECT x.ctid AS tid FROM lease x WHERE x.token = l.token AND x.last_id = l.last_id OFFSET 0) x),
    stay AS (
        UPDATE lease x
        SET stubs = r.kept, last_id = (r.kept[cardinality(r.kept)]).id,
            end_at = CASE WHEN EXISTS (SELECT FROM unnest(r.kept) s WHERE s.id = ANY (p_left)) THEN x.end_at
                ELSE p_now + 1000 END
        FROM rest r WHERE x.ctid = r.tid AND cardinality(r.kept) > 0
        RETURNING x.end_at),
    gone AS (
        DELETE FROM lease x WHERE x.ctid = ANY (ARRAY(SELECT r.tid FROM rest r WHERE cardinality(r.kept) = 0)))
    SELECT MIN(s.end_at) FILTER (WHERE s.end_at <= p_now) - 1, MAX(s.end_at) INTO swept_at, kept_to FROM stay s;
END $$;
