-- Part of a sweep: what is left of leases that ran out. Those of whose messages none is there any more go. The others
-- keep what somebody else held for a second, and what was too much for this sweep for the next one. Returns up to
-- where nothing is left, and when what was kept ends.
CREATE OR REPLACE FUNCTION leases_keep (
    p_leases lease[], p_left BIGINT[], p_now BIGINT, OUT swept_at BIGINT, OUT kept_to BIGINT)
LANGUAGE plpgsql AS $$
BEGIN
    WITH rest AS MATERIALIZED (
        SELECT x.tid, ARRAY(
            SELECT s FROM unnest(l.stubs) s
            CROSS JOIN LATERAL (SELECT FROM message m WHERE m.id = s.id AND m.generation = s.generation OFFSET 0) m
            ORDER BY s.id) AS kept
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
