-- Part of a dispatch: lanes that nobody serves give up the slots that others need. Entries of a channel that is full
-- go back from ready into their line, if messages of that channel wait in a lane that is served (p_hinted: channels
-- that are to be looked at again; p_due: what is to be placed); and all of them, if the limit over all channels is
-- used up. Returns the lanes as they are then, and the channels that have room now.
CREATE OR REPLACE FUNCTION lanes_yield (
    INOUT lanes lane_state[], p_hinted TEXT[], p_due entry[], p_max INT, p_now BIGINT, OUT channels TEXT[])
LANGUAGE plpgsql AS $$
DECLARE
    v_served lane_state[] := ARRAY(SELECT l FROM unnest(lanes) l WHERE NOT lane_is_idle(l, p_now));
    v_names TEXT[] := ARRAY(SELECT l.name FROM unnest(v_served) l);
    v_is_full BOOLEAN := FALSE;
BEGIN
    IF cardinality(v_served) IN (0, cardinality(lanes)) THEN
        RETURN;
    END IF;
    channels := ARRAY(
        SELECT e.channel FROM unnest(p_due) e WHERE e.lane = ANY (v_names)
        UNION
        SELECT u.name FROM unnest(p_hinted) u (name) CROSS JOIN unnest(v_served) l
        CROSS JOIN LATERAL (
            SELECT b.stretches FROM backlog b WHERE b.channel = u.name AND b.lane = l.name
            ORDER BY b.channel DESC, b.lane DESC, b.turn DESC LIMIT 1) b
        WHERE b.stretches <> '{}');
    IF slots_room(p_max) = 0 THEN
        v_is_full := channels <> '{}' OR EXISTS (
            SELECT FROM unnest(v_served) l
            CROSS JOIN LATERAL (
                SELECT FROM backlog b WHERE b.is_open AND b.lane = l.name AND b.tag >= l.v
                ORDER BY b.lane, b.tag, b.turn LIMIT 1) b);
    END IF;
    channels := ARRAY(SELECT r.channel FROM channel_room(channels, p_now) r WHERE r.room = 0);
    FOR i IN 1 .. cardinality(lanes) LOOP
        CONTINUE WHEN (lanes[i]).name = ANY (v_names) OR channels = '{}' AND NOT v_is_full;
        PERFORM ready_take_back(lanes[i], ARRAY(
            SELECT ROW(0, 0, -32768, -9223372036854775808, 0, (lanes[i]).name, c)::entry
            FROM (
                SELECT unnest(channels)
                UNION
                SELECT r.channel FROM ready r
                WHERE v_is_full AND r.lane = (lanes[i]).name AND r.tag >= (lanes[i]).floor) u (c)));
        lanes[i].front := NULL;
    END LOOP;
END $$;
