-- Part of slots_mark_released: dequeues took p_n messages of a channel. Remove as many from the entries that were out
-- and are no longer in ready, those that are marked first (see slots_check_out). If there are fewer, the others were
-- taken before the channel had a rate. Returns the rest.
CREATE OR REPLACE FUNCTION slots_take_out (p_channel TEXT, p_out stub[], p_n BIGINT, p_lanes lane_state[])
RETURNS stub[] LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_ready stub[] := ready_stubs(p_channel, p_lanes);
BEGIN
    RETURN ARRAY(
        SELECT x.o
        FROM (
            SELECT o.o, o.is_ready, ROW_NUMBER() OVER (ORDER BY o.is_ready, o.generation >= 0) AS nth
            FROM (
                SELECT o, o.generation, COALESCE((o.id, o.generation) IN (
                    SELECT r.id, r.generation FROM unnest(v_ready) r), FALSE) AS is_ready
                FROM unnest(p_out) o) o) x
        WHERE x.is_ready OR x.nth > p_n);
END $$;
