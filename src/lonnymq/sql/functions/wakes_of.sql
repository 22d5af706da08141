-- Part of a fold: the wakes of postponed channels. They are looked at in any case, and reach up to the end: what else arrived
-- meanwhile was not kept.
CREATE OR REPLACE FUNCTION wakes_of (p_due postponed[])
RETURNS wake[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN ARRAY(
        SELECT ROW(NULL, NULL, NULL, NULL, NULL, NULL, substr(d.key, 2), 0)::wake FROM unnest(p_due) d WHERE left(d.key, 1) = 'c'
        UNION ALL
        SELECT ROW(NULL, NULL, d.lo_at, d.lo_id, 9223372036854775807, 9223372036854775807, substr(d.key, 2), 0)::wake
        FROM unnest(p_due) d WHERE left(d.key, 1) = 'c' AND d.lo_at IS NOT NULL);
END $$;
