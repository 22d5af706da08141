-- When the next message becomes due of a channel without due messages; NULL: it has no scheduled ones either.
CREATE OR REPLACE FUNCTION channel_scheduled_at (p_channel TEXT, p_tick tick)
RETURNS BIGINT LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN LEAST((
        SELECT MIN(m.dequeue_at) FROM message_undispatched(10000) m WHERE m.channel = p_channel), (
        SELECT s.at FROM scheduled s WHERE s.channel = p_channel AND s.at > p_tick.due_to
        ORDER BY s.channel, s.at, s.id LIMIT 1));
END $$;
