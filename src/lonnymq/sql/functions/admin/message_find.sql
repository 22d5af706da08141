-- The messages of these channels, or of all (NULL), that wait or are leased, with their leases. p_leased: TRUE for
-- leased ones, FALSE for waiting ones, NULL for both. p_id: that message only, if it is there. Locks nothing.
-- What is read for p_id does not depend on the messages of other channels, except for messages that are leased or not
-- dispatched yet: there is no index of these by channel, so they are all read, whatever p_id is.
CREATE OR REPLACE FUNCTION message_find (p_channels TEXT[], p_leased BOOLEAN, p_id BIGINT DEFAULT NULL)
RETURNS TABLE (id BIGINT, generation INT, end_at BIGINT, dequeued_at BIGINT, consumer TEXT)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    v_now BIGINT := clock_ms();
    v_lanes lane_state[] := (SELECT t.lanes FROM tick t ORDER BY t.id DESC LIMIT 1);
BEGIN
    -- Channels are compared in pairs: so the planner must use the indexes that begin with the channel.
    IF p_leased IS NOT TRUE THEN
        RETURN QUERY
        SELECT x.id, x.generation, NULL::BIGINT, NULL::BIGINT, NULL
        FROM (
            SELECT i.id, i.generation FROM unnest(p_channels) c (name)
            CROSS JOIN LATERAL (SELECT * FROM line i WHERE i.channel = c.name OFFSET 0) i
            UNION ALL
            SELECT r.id, r.generation FROM unnest(p_channels) c (name) CROSS JOIN unnest(v_lanes) l
            CROSS JOIN LATERAL (
                SELECT * FROM ready r
                WHERE r.channel = c.name AND r.lane || '' = l.name AND r.tag >= l.floor OFFSET 0) r
            UNION ALL
            SELECT s.id, s.generation FROM unnest(p_channels) c (name)
            CROSS JOIN LATERAL (
                SELECT * FROM scheduled s WHERE (s.channel, s.at) > (c.name, v_now) AND s.channel <= c.name OFFSET 0) s
            UNION ALL
            SELECT u.id, u.generation FROM list_undispatched(p_channels, NULL, v_now) u WHERE p_channels IS NOT NULL
            UNION ALL
            SELECT a.id, a.generation FROM message a
            WHERE p_channels IS NULL AND a.id NOT IN (SELECT h.id FROM message_leases(NULL) h)) x
        WHERE p_id IS NULL OR x.id = p_id;
    END IF;
    IF p_leased IS NOT FALSE THEN
        RETURN QUERY
        SELECT s.id, s.generation, l.end_at, l.dequeued_at, l.consumer
        FROM lease l
        CROSS JOIN LATERAL unnest(l.stubs) s
        CROSS JOIN LATERAL (
            SELECT m.id, m.channel FROM message m WHERE m.id = s.id AND m.generation = s.generation OFFSET 0) m
        WHERE (p_channels IS NULL OR m.channel = ANY (p_channels)) AND (p_id IS NULL OR m.id = p_id);
    END IF;
END $$;
