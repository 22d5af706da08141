-- Give a waiting message another time: p_dequeue_at, or now. Waits for an open dequeue of the same message. READ
-- COMMITTED only.
-- Returns 'rescheduled', 'leased' (a worker has it), 'dead' (use dead_retry) or 'not_found'.
CREATE OR REPLACE FUNCTION message_reschedule (p_id BIGINT, p_dequeue_at BIGINT DEFAULT NULL)
RETURNS TEXT LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    v_endings ending[];
BEGIN
    PERFORM isolation_check('message_reschedule');
    PERFORM unbound_check('message_reschedule');
    PERFORM time_check(p_dequeue_at);
    IF message_lock(ARRAY[p_id]) = '{}' THEN
        RETURN CASE WHEN EXISTS (SELECT FROM dead WHERE id = p_id) THEN 'dead' ELSE 'not_found' END;
    END IF;
    v_endings := message_withdraw(ARRAY[p_id], NULL, COALESCE(p_dequeue_at, clock_ms()));
    IF (v_endings[1]).token IS NOT NULL THEN
        RETURN 'leased';
    END IF;
    PERFORM message_return(v_endings);
    PERFORM slots_notify(ARRAY[(v_endings[1]).channel]); -- it may have used a slot
    RETURN 'rescheduled';
END $$;
