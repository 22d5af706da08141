-- The stretches of a line when a refill has taken from it: from the position (rank, at, id) of the next message on,
-- where one is left; and before it a stretch for what somebody held.
CREATE OR REPLACE FUNCTION stretches_left (p_stretches stretch[], p_next BIGINT[], p_held BIGINT[])
RETURNS stretch[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_spot BIGINT[];
    v_lo BIGINT[];
    v_hi BIGINT[];
BEGIN
    IF p_held IS NOT NULL THEN
        FOREACH v_spot SLICE 1 IN ARRAY p_held LOOP
            IF p_next IS NULL OR v_spot < p_next THEN
                v_lo := LEAST(v_lo, v_spot);
                v_hi := GREATEST(v_hi, v_spot);
            END IF;
        END LOOP;
    END IF;
    RETURN CASE WHEN v_lo IS NOT NULL
            THEN ARRAY[ROW(v_lo[1], v_lo[2], v_lo[3], v_hi[1], v_hi[2], v_hi[3])::stretch] ELSE '{}' END
        || COALESCE(stretches_from(p_stretches, p_next), '{}');
END $$;
