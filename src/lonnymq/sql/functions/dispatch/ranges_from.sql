-- The part of a line's ranges that starts at a position (rank, at, id). NULL if nothing is left, or p_from is NULL.
CREATE OR REPLACE FUNCTION ranges_from (p_ranges line_range[], p_from BIGINT[])
RETURNS line_range[] LANGUAGE sql IMMUTABLE AS $$
    SELECT array_agg(
        CASE WHEN (s.lo_rank, s.lo_at, s.lo_id) >= (p_from[1], p_from[2], p_from[3]) THEN s
            ELSE ROW(p_from[1], p_from[2], p_from[3], s.hi_rank, s.hi_at, s.hi_id)::line_range END
                ORDER BY s.lo_rank, s.lo_at, s.lo_id)
    FROM unnest(p_ranges) s WHERE (s.hi_rank, s.hi_at, s.hi_id) >= (p_from[1], p_from[2], p_from[3])
$$;
