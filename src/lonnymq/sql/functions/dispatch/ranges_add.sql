-- The ranges of a line after messages were added. A message inside a range changes nothing. A message behind the last
-- range, with the same rank and the same kind of time (urgent or ordinary), extends it. The others make new ranges, one
-- per rank and kind of time, because between these kinds there are dead rows. There are at most 16 ranges; above that,
-- the last ones are merged.
CREATE OR REPLACE FUNCTION ranges_add (p_old line_range[], p_new ready[])
RETURNS line_range[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_last line_range := p_old[cardinality(p_old)];
    v_all line_range[];
BEGIN
    WITH old AS MATERIALIZED (SELECT s.* FROM unnest(p_old) s),
    outside AS MATERIALIZED (
        SELECT e.rank, e.at, e.id, k.n,
            (e.rank, e.at, e.id) > (v_last.hi_rank, v_last.hi_at, v_last.hi_id)
                AND e.rank = v_last.hi_rank AND (e.at > 0) = (v_last.hi_at > 0) AS is_behind
        FROM unnest(p_new) e
        CROSS JOIN LATERAL (
            SELECT COUNT(*) AS n, BOOL_OR((e.rank, e.at, e.id) <= (o.hi_rank, o.hi_at, o.hi_id)) AS is_inside FROM old o
            WHERE (o.lo_rank, o.lo_at, o.lo_id) <= (e.rank, e.at, e.id)) k
        WHERE k.is_inside IS NOT TRUE),
    made AS (
        SELECT MIN(ARRAY[x.rank, x.at, x.id]) AS lo, MAX(ARRAY[x.rank, x.at, x.id]) AS hi
        FROM outside x WHERE x.is_behind IS NOT TRUE GROUP BY x.n, x.rank, x.at > 0),
    longer AS (SELECT MAX(ARRAY[x.rank, x.at, x.id]) AS hi FROM outside x WHERE x.is_behind)
    SELECT array_agg(y.s ORDER BY (y.s).lo_rank, (y.s).lo_at, (y.s).lo_id) INTO v_all
    FROM (
        SELECT ROW(o.lo_rank, o.lo_at, o.lo_id, o.hi_rank, o.hi_at, o.hi_id)::line_range AS s FROM old o
        WHERE (o.lo_rank, o.lo_at, o.lo_id) < (v_last.lo_rank, v_last.lo_at, v_last.lo_id)
        UNION ALL
        SELECT ROW(v_last.lo_rank, v_last.lo_at, v_last.lo_id, COALESCE(l.hi[1], v_last.hi_rank),
            COALESCE(l.hi[2], v_last.hi_at), COALESCE(l.hi[3], v_last.hi_id))::line_range
        FROM longer l WHERE v_last.lo_id IS NOT NULL
        UNION ALL
        SELECT ROW(m.lo[1], m.lo[2], m.lo[3], m.hi[1], m.hi[2], m.hi[3])::line_range FROM made m) y;
    IF cardinality(v_all) > 16 THEN
        v_last := v_all[cardinality(v_all)];
        v_all := v_all[:15] || ROW((v_all[16]).lo_rank, (v_all[16]).lo_at, (v_all[16]).lo_id,
            v_last.hi_rank, v_last.hi_at, v_last.hi_id)::line_range;
    END IF;
    RETURN v_all;
END $$;
