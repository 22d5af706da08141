-- The status of a stored message: 'leased', 'due' or 'scheduled'.
CREATE OR REPLACE FUNCTION message_status (p_leased BOOLEAN, p_dequeue_at BIGINT)
RETURNS TEXT LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN CASE WHEN p_leased THEN 'leased' WHEN p_dequeue_at <= clock_ms() THEN 'due' ELSE 'scheduled' END;
END $$;
