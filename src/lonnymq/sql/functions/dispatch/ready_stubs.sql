-- The entries that a channel has in ready, including those that an open dequeue has locked.
CREATE OR REPLACE FUNCTION ready_stubs (p_channel TEXT, p_lanes lane_state[])
RETURNS stub[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ARRAY(
        SELECT ROW(r.id, r.generation)::stub FROM unnest(p_lanes) l
        CROSS JOIN LATERAL (
            SELECT r.id, r.generation FROM ready r
            WHERE r.channel = p_channel AND r.lane || '' = l.name AND r.tag >= l.floor OFFSET 0) r
        UNION ALL
        SELECT ROW(r.id, r.generation)::stub FROM ready_locked h -- below the floor
        CROSS JOIN LATERAL (
            SELECT r.id, r.generation FROM ready r
            WHERE r.lane = h.lane AND r.tag = h.tag AND r.id = h.id AND r.generation = h.generation
                AND r.channel = p_channel OFFSET 0) r);
END $$;
