-- Part of a sweep: what is left of leases that ran out. Those of whose messages none is there any more go. The others keep what
-- somebody else held for a second, and what was too much for this sweep for the next one: it begins at the time that is returned.
CREATE OR REPLACE FUNCTION leases_keep (p_leases lease[], p_left BIGINT[], p_now BIGINT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    v_from BIGINT;
BEGIN
    WITH rest AS MATERIALIZED (
        SELECT l.token, l.last_id, ARRAY(
            SELECT s FROM unnest(l.stubs) s
            CROSS JOIN LATERAL (SELECT FROM message m WHERE m.id = s.id AND m.generation = s.generation OFFSET 0) m
            ORDER BY s.id) AS kept
        FROM unnest(p_leases) l),
    stay AS (
        UPDATE lease x
        SET stubs = r.kept, last_id = (r.kept[cardinality(r.kept)]).id,
            end_at = CASE WHEN EXISTS (SELECT FROM unnest(r.kept) s WHERE s.id = ANY (p_left)) THEN x.end_at ELSE p_now + 1000 END
        FROM rest r WHERE x.token = r.token AND x.last_id = r.last_id AND cardinality(r.kept) > 0
        RETURNING x.end_at),
    gone AS (
        DELETE FROM lease x USING rest r WHERE x.token = r.token AND x.last_id = r.last_id AND cardinality(r.kept) = 0)
    SELECT MIN(s.end_at) - 1 INTO v_from FROM stay s WHERE s.end_at <= p_now;
    RETURN v_from;
END $$;
