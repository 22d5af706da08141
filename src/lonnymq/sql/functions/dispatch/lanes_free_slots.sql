-- Part of dispatch: lanes without consumers give up slots that other lanes need. If a channel is full and has messages
-- waiting in a lane with consumers, its entries in the other lanes move from ready back into their lines; if the limit
-- of the queue is used up, all entries of lanes without consumers do. p_hinted: channels to look at again; p_due:
-- messages that are to be placed. Returns the new states of the lanes, and the channels that have room now.
CREATE OR REPLACE FUNCTION lanes_free_slots (
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
        CROSS JOIN LATERAL backlog_live(u.name, l.name) b
        WHERE b.ranges <> '{}');
    IF queue_room(p_max) = 0 THEN
        v_is_full := channels <> '{}' OR EXISTS (
            SELECT FROM unnest(v_served) l WHERE line_first_tag(l) IS NOT NULL);
    END IF;
    channels := ARRAY(SELECT r.channel FROM channel_room(channels, p_now) r WHERE r.room = 0);
    FOR i IN 1 .. cardinality(lanes) LOOP
        CONTINUE WHEN (lanes[i]).name = ANY (v_names) OR channels = '{}' AND NOT v_is_full;
        PERFORM ready_withdraw_channels(lanes[i], ARRAY(
            SELECT unnest(channels)
            UNION
            SELECT r.channel FROM ready r
            WHERE v_is_full AND r.lane = (lanes[i]).name AND r.tag >= (lanes[i]).floor));
        lanes[i].front := NULL;
    END LOOP;
END $$;
