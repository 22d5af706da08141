-- Give a waiting message another time: p_dequeue_at, or now. Waits for an open dequeue of the same message.
-- Returns 'rescheduled', 'leased' (a worker has it), 'dead' (retry it with dead_retry) or 'not_found'.
CREATE OR REPLACE FUNCTION message_reschedule (p_id BIGINT, p_dequeue_at BIGINT DEFAULT NULL)
RETURNS TEXT LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan TO off SET jit TO off AS $$
DECLARE
    v_at BIGINT := COALESCE(p_dequeue_at, clock_ms());
    v_message RECORD;
BEGIN
    PERFORM free_check('message_reschedule');
    PERFORM time_check(p_dequeue_at);
    SELECT channel, leased INTO v_message FROM message WHERE id = p_id FOR UPDATE;
    IF NOT FOUND THEN
        RETURN CASE WHEN EXISTS (SELECT FROM dead WHERE id = p_id) THEN 'dead' ELSE 'not_found' END;
    ELSIF v_message.leased THEN
        RETURN 'leased';
    END IF;
    UPDATE message SET dequeue_at = v_at WHERE id = p_id;
    INSERT INTO wake (channel, lo_at, lo_id, hi_at, hi_id) VALUES (v_message.channel, v_at, p_id, v_at, p_id);
    PERFORM wake_notify();
    RETURN 'rescheduled';
END $$;
