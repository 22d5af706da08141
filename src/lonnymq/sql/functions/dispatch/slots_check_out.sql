-- Part of slots_prune: find out which of the entries that are out, of a channel with a rate, are still in ready. An
-- entry that is not there was either taken, and a later dispatch reads the notice of that, or cancelled. It is marked,
-- by generation -1, and removed by the next dispatch that has read all notices (not p_is_behind): if it was taken, its
-- notice is then read, and slots_take_out has removed it or another one. So until then a token is kept for it. Returns
-- what is still out, and whether the next dispatch should come at once: if a message is gone, there may be no other
-- reason for one.
CREATE OR REPLACE FUNCTION slots_check_out (
    p_channel TEXT, p_out stub[], p_lanes lane_state[], p_is_behind BOOLEAN, OUT still stub[], OUT is_urgent BOOLEAN)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_ready stub[];
BEGIN
    still := '{}';
    is_urgent := FALSE;
    IF p_out = '{}' THEN
        RETURN;
    END IF;
    v_ready := ready_stubs(p_channel, p_lanes);
    SELECT COALESCE(array_agg(CASE WHEN x.is_ready THEN x.o ELSE ROW(x.id, -1)::stub END)
            FILTER (WHERE x.is_ready OR x.generation >= 0 OR p_is_behind), '{}'),
        BOOL_OR(NOT x.is_ready AND CASE WHEN x.generation < 0 THEN p_is_behind ELSE NOT EXISTS (
            SELECT FROM message m WHERE m.id = x.id AND m.generation = x.generation) END)
    INTO still, is_urgent
    FROM (
        SELECT o, o.id, o.generation, COALESCE((o.id, o.generation) IN (
            SELECT r.id, r.generation FROM unnest(v_ready) r), FALSE) AS is_ready
        FROM unnest(p_out) o) x;
END $$;
