-- Part of a sweep: what is left of leases that ran out. Those of whose messages none is there any more go. The others keep what
-- somebody else held for a second, and what was too much for this sweep for the next one: it begins at the time that is returned.
CREATE OR REPLACE FUNCTION leases_keep (p_leases lease[], p_left BIGINT[], p_now BIGINT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    v_from BIGINT;
BEGIN
    WITH rest AS MATERIALIZED (
        SELECT l.*, ARRAY(
            SELECT s FROM unnest(l.stubs) s
            CROSS JOIN LATERAL (SELECT FROM message m WHERE m.id = s.id AND m.generation = s.generation OFFSET 0) m
            ORDER BY s.id) AS kept
        FROM unnest(p_leases) l),
    gone AS (
        DELETE FROM lease x WHERE x.ctid = ANY (ARRAY(
            SELECT y.tid FROM rest r
            CROSS JOIN LATERAL (
                SELECT y.ctid AS tid FROM lease y WHERE y.token = r.token AND y.last_id = r.last_id OFFSET 0) y))),
    stay AS (
        INSERT INTO lease (token, last_id, end_at, dequeued_at, is_limited, consumer, stubs)
        SELECT r.token, (r.kept[cardinality(r.kept)]).id, CASE WHEN k.is_left THEN r.end_at ELSE p_now + 1000 END,
            r.dequeued_at, r.is_limited, r.consumer, r.kept
        FROM rest r
        CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM unnest(r.kept) s WHERE s.id = ANY (p_left)) AS is_left) k
        WHERE cardinality(r.kept) > 0
        RETURNING end_at)
    SELECT MIN(s.end_at) - 1 INTO v_from FROM stay s WHERE s.end_at <= p_now;
    RETURN v_from;
END $$;
