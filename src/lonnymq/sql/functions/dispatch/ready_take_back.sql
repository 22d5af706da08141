-- Take entries of channels back from ready into their lines, so that the refill deals their tags anew: all that stand
-- behind the marks, one a channel, as far as nobody holds them. They no longer use slots.
CREATE OR REPLACE FUNCTION ready_take_back (l lane_state, p_marks entry[])
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_back ready[];
BEGIN
    WITH back AS (
        DELETE FROM ready r WHERE r.ctid = ANY (ARRAY(
            SELECT x.tid FROM unnest(p_marks) k
            CROSS JOIN LATERAL (
                SELECT r.ctid AS tid FROM ready r
                WHERE r.channel = k.channel AND r.lane || '' = l.name AND r.tag >= l.floor
                    AND (r.rank, r.at, r.id) > (k.rank, k.at, k.id)
                FOR UPDATE SKIP LOCKED) x))
        RETURNING r)
    SELECT array_agg(b.r) INTO v_back FROM back b;
    PERFORM line_return(l, v_back);
END $$;
