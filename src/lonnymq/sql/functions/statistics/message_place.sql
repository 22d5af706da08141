-- How far a waiting message is from being served: one row, or none if no message that the caller may see waits under
-- this id. place: how many messages of its channel and lane are served before it, counted up to 1,000; is_capped: there
-- are more. place is NULL if it is not due yet. reason and ahead: why the next message of its channel and lane is not
-- served now, and about how many messages of all channels are before that one, as channel_explain says.
-- The cost does not depend on how many messages wait, except for a login that is bound to channels: see message_get.
-- Locks nothing.
CREATE OR REPLACE FUNCTION message_place (p_id BIGINT)
RETURNS TABLE (
    id BIGINT, channel TEXT, lane TEXT, status TEXT, dequeue_at BIGINT, place INT, is_capped BOOLEAN, reason TEXT,
    ahead BIGINT)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    c_cap CONSTANT INT := 1000;
    c_start CONSTANT BIGINT := -9223372036854775808;
    v_now BIGINT := clock_ms();
    v_rank SMALLINT;
    t tick;
BEGIN
    SELECT m.id, m.channel, m.lane, m.status, m.dequeue_at, -m.priority
    INTO id, channel, lane, status, dequeue_at, v_rank
    FROM message_get(p_id) m WHERE m.status IN ('due', 'scheduled');
    IF NOT FOUND THEN
        RETURN;
    END IF;
    is_capped := FALSE;
    IF status = 'scheduled' THEN
        reason := 'scheduled';
        RETURN NEXT;
        RETURN;
    END IF;
    SELECT * INTO t FROM tick ORDER BY tick.id DESC LIMIT 1;
    SELECT COUNT(*) INTO place FROM (
        SELECT FROM (
            SELECT e.rank, e.at, e.id
            FROM list_due(message_place.channel,
                ARRAY(SELECT l FROM unnest(t.lanes) l WHERE l.name = message_place.lane),
                (-32768)::SMALLINT, c_start, c_start, c_cap + 1) e
            UNION ALL
            SELECT u.rank, u.at, u.id FROM list_undispatched(ARRAY[message_place.channel], 10000, v_now, c_cap) u
            WHERE u.lane = message_place.lane AND u.at <= v_now) x
        WHERE (x.rank, x.at, x.id) < (v_rank, message_place.dequeue_at, p_id)
        LIMIT c_cap + 1) y;
    is_capped := place > c_cap;
    place := LEAST(place, c_cap);
    SELECT e.reason, e.ahead INTO reason, ahead
    FROM channel_explain(message_place.channel) e WHERE e.lane = message_place.lane;
    RETURN NEXT;
END $$;
