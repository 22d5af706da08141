-- What became of a message: always one row. status is 'due', 'scheduled', 'leased', 'completed', 'cancelled' or 'dead';
-- 'unknown' if it never existed, if it finished and neither its result nor a history is kept, or if the caller may not
-- see it. The result itself is returned with p_with_result. progress is what the running attempt reported.
-- If its result will be kept: LISTEN on notify_channel, ask again, and then wait for a notification that has notify_key
-- among its keys. Both are NULL if there will be no notification. Locks nothing. For a login that is bound to channels,
-- what is read does not depend on other channels: see message_get.
CREATE OR REPLACE FUNCTION status_get (p_id BIGINT, p_with_result BOOLEAN DEFAULT FALSE)
RETURNS TABLE (
    id BIGINT, status TEXT, channel TEXT, created_at BIGINT, dequeue_at BIGINT, dequeued_at BIGINT, lease_end_at BIGINT,
    finished_at BIGINT, attempts INT, max_attempts INT, consumer TEXT, error TEXT, is_cancelled BOOLEAN,
    progress REAL, progress_note TEXT, progress_at BIGINT, keep_result_ms BIGINT, result_until_at BIGINT,
    result_type TEXT, result_content BYTEA, notify_channel TEXT, notify_key TEXT)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    m RECORD;
BEGIN
    id := p_id;
    status := 'unknown';
    is_cancelled := FALSE;
    SELECT g.status, g.channel, g.created_at, g.dequeue_at, g.dequeued_at, g.lease_end_at, g.dead_at, g.attempts,
        g.max_attempts, g.consumer, g.error, g.is_cancelled, g.keep_result_ms
    INTO m FROM message_get(p_id) g;
    IF FOUND THEN
        status := m.status;
        channel := m.channel;
        created_at := m.created_at;
        dequeue_at := m.dequeue_at;
        dequeued_at := m.dequeued_at;
        lease_end_at := m.lease_end_at;
        finished_at := m.dead_at;
        attempts := m.attempts;
        max_attempts := m.max_attempts;
        consumer := m.consumer;
        error := m.error;
        is_cancelled := m.is_cancelled;
        keep_result_ms := m.keep_result_ms;
        IF m.status = 'leased' THEN
            SELECT p.fraction, p.note, p.at INTO progress, progress_note, progress_at FROM message x
            CROSS JOIN LATERAL (SELECT * FROM progress p WHERE p.id = x.id ORDER BY p.id DESC, p.turn DESC LIMIT 1) p
            WHERE x.id = p_id AND x.generation = p.generation;
        END IF;
        IF m.status <> 'dead' AND m.keep_result_ms IS NOT NULL AND (SELECT q.notify FROM queue q) THEN
            notify_channel := result_channel();
            notify_key := result_key(p_id, (SELECT s.secret FROM result_secret s));
        END IF;
    ELSE
        SELECT f.* INTO status, channel, created_at, dequeue_at, dequeued_at, finished_at, attempts, consumer, error,
            result_until_at, result_type, result_content
        FROM finished_find(p_id, p_with_result) f;
        status := COALESCE(status_get.status, 'unknown');
    END IF;
    RETURN NEXT;
END $$;
