-- The first p_limit messages from a position on that the dispatcher has placed, in the order (channel, rank, at, id):
-- for each channel the due messages, then the scheduled ones, which have the rank 32767 here. p_channel NULL: all
-- channels from p_from on. p_lane NULL: all lanes.
CREATE OR REPLACE FUNCTION list_placed (
    p_channel TEXT, p_status TEXT, p_from TEXT, p_rank SMALLINT, p_at BIGINT, p_id BIGINT, p_now BIGINT, p_limit INT,
    p_lane TEXT)
RETURNS SETOF entry LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_lanes lane_state[] := ARRAY(
        SELECT l FROM (SELECT * FROM tick ORDER BY id DESC LIMIT 1) t CROSS JOIN unnest(t.lanes) l
        WHERE p_lane IS NULL OR l.name = p_lane);
    v_name TEXT := COALESCE(p_channel, p_from);
    v_left INT := p_limit;
    v_found INT;
BEGIN
    LOOP
        IF p_status <> 'scheduled' THEN
            RETURN QUERY SELECT * FROM list_due(v_name, v_lanes, p_rank, p_at, p_id, v_left);
            GET DIAGNOSTICS v_found = ROW_COUNT;
            v_left := v_left - v_found;
        END IF;
        IF p_status <> 'due' AND v_left > 0 THEN
            RETURN QUERY
            SELECT s.id, s.generation, 32767::SMALLINT, s.at, s.cost, s.lane, s.channel
            FROM scheduled s
            WHERE (s.channel, s.at, s.id) >= (
                v_name, CASE WHEN p_rank = 32767 AND p_at > p_now THEN p_at ELSE p_now + 1 END,
                CASE WHEN p_rank = 32767 AND p_at > p_now THEN p_id ELSE 0 END)
                AND s.channel <= v_name AND (p_lane IS NULL OR s.lane = p_lane)
            ORDER BY s.channel, s.at, s.id LIMIT v_left;
            GET DIAGNOSTICS v_found = ROW_COUNT;
            v_left := v_left - v_found;
        END IF;
        EXIT WHEN p_channel IS NOT NULL OR v_left = 0;
        v_name := LEAST(
            (SELECT b.channel FROM backlog b
             WHERE p_status <> 'scheduled' AND b.channel > v_name AND b.ranges <> '{}'
             ORDER BY b.channel, b.lane, b.turn LIMIT 1),
            (SELECT r.channel FROM ready r
             WHERE p_status <> 'scheduled' AND r.channel > v_name ORDER BY r.channel, r.tag, r.id LIMIT 1),
            (SELECT s.channel FROM scheduled s
             WHERE p_status <> 'due' AND s.channel > v_name ORDER BY s.channel, s.at, s.id LIMIT 1));
        EXIT WHEN v_name IS NULL;
        p_rank := -32768;
        p_at := -9223372036854775808;
        p_id := -9223372036854775808;
    END LOOP;
END $$;
