-- Look again at the entries in ready_locked. Those whose dequeue was rolled back go back into their lines; those whose
-- dequeue committed are gone. Returns whether any are still locked.
CREATE OR REPLACE FUNCTION ready_locked_check (p_lanes lane_state[])
RETURNS BOOLEAN LANGUAGE plpgsql AS $$
DECLARE
    l lane_state;
    v_all ready[];
    v_locked ready[];
BEGIN
    FOREACH l IN ARRAY p_lanes LOOP
        SELECT array_agg(r.r) INTO v_all FROM ready_locked h
        CROSS JOIN LATERAL (SELECT r FROM ready r WHERE r.lane = h.lane AND r.tag = h.tag AND r.id = h.id
            AND r.generation = h.generation OFFSET 0) r
        WHERE h.lane = l.name;
        v_locked := ready_reclaim(l, v_all);
        DELETE FROM ready_locked h WHERE h.lane = l.name;
        INSERT INTO ready_locked (lane, tag, id, generation)
        SELECT k.lane, k.tag, k.id, k.generation FROM unnest(v_locked) k;
    END LOOP;
    RETURN EXISTS (SELECT FROM ready_locked);
END $$;
