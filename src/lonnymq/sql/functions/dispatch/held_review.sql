-- Look at the entries that open dequeues held: those that were given back are put back into ready, at the lane's
-- virtual time. Returns whether some are still held.
CREATE OR REPLACE FUNCTION held_review (p_lanes lane_state[])
RETURNS BOOLEAN LANGUAGE plpgsql AS $$
DECLARE
    l lane_state;
    v_all ready[];
    v_held ready[];
BEGIN
    FOREACH l IN ARRAY p_lanes LOOP
        SELECT array_agg(r.r) INTO v_all FROM held h
        CROSS JOIN LATERAL (SELECT r FROM ready r WHERE r.lane = h.lane AND r.tag = h.tag AND r.id = h.id
            AND r.generation = h.generation OFFSET 0) r
        WHERE h.lane = l.name;
        v_held := ready_put_back(l, v_all);
        DELETE FROM held h WHERE h.lane = l.name;
        INSERT INTO held (lane, tag, id, generation)
        SELECT k.lane, k.tag, k.id, k.generation FROM unnest(v_held) k;
    END LOOP;
    RETURN EXISTS (SELECT FROM held);
END $$;
