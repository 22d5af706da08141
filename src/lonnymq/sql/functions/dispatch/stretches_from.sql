-- The stretches of a line from a position (rank, at, id) on; from NULL, none.
CREATE OR REPLACE FUNCTION stretches_from (p_stretches stretch[], p_from BIGINT[])
RETURNS stretch[] LANGUAGE sql IMMUTABLE AS $$
    SELECT array_agg(
        CASE WHEN (s.lo_rank, s.lo_at, s.lo_id) >= (p_from[1], p_from[2], p_from[3]) THEN s
            ELSE ROW(p_from[1], p_from[2], p_from[3], s.hi_rank, s.hi_at, s.hi_id)::stretch END
                ORDER BY s.lo_rank, s.lo_at, s.lo_id)
    FROM unnest(p_stretches) s WHERE (s.hi_rank, s.hi_at, s.hi_id) >= (p_from[1], p_from[2], p_from[3])
$$;
