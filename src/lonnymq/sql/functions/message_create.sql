-- Queue one message. It is there when the caller's transaction commits.
-- Locks nothing and reads no channel: producers only append, so an open transaction delays nobody. Works in
-- every isolation level. Returns the message's id and 'created'.
CREATE OR REPLACE FUNCTION message_create (
    p_channel TEXT,
    p_content BYTEA,
    p_dequeue_at BIGINT DEFAULT NULL,
    p_headers JSONB DEFAULT NULL,
    p_max_attempts INT DEFAULT NULL
) RETURNS TABLE (id BIGINT, result TEXT)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    v_now BIGINT := transaction_ms();
    v_at BIGINT := COALESCE(p_dequeue_at, v_now);
BEGIN
    IF (p_channel <> '' AND octet_length(p_channel) <= 255
        AND octet_length(p_content) <= (SELECT content_max_bytes FROM queue)
        AND v_at BETWEEN -9007199254740992 AND 9007199254740992
        AND COALESCE(p_max_attempts BETWEEN 1 AND 1000000, TRUE) AND p_headers IS NULL) IS NOT TRUE
    THEN
        PERFORM message_check(p_channel, p_content, p_dequeue_at, p_headers, p_max_attempts);
    END IF;
    INSERT INTO message (channel, dequeue_at, created_at, headers, max_attempts, content)
    VALUES (p_channel, v_at, v_now, p_headers, p_max_attempts, p_content)
    RETURNING message.id INTO id;
    INSERT INTO wake (channel, lo_at, lo_id, hi_at, hi_id) VALUES (p_channel, v_at, message_create.id, v_at, message_create.id);
    result := 'created';
    RETURN NEXT;
END $$;
