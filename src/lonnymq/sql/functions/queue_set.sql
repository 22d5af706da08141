-- Change the queue's settings; what is omitted keeps its value. Returns what queue_get does.
CREATE OR REPLACE FUNCTION queue_set (
    p_content_max_bytes INT DEFAULT NULL, p_lease_max_ms BIGINT DEFAULT NULL, p_max_attempts INT DEFAULT NULL)
RETURNS TABLE (content_max_bytes INT, lease_max_ms BIGINT, max_attempts INT)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
BEGIN
    IF p_content_max_bytes NOT BETWEEN 1 AND 268435456 THEN
        PERFORM refuse('LM011', format('a content limit of %s bytes is not possible', p_content_max_bytes), 'Allow 1 byte to 256 MiB.');
    ELSIF p_lease_max_ms NOT BETWEEN 1 AND 31536000000 THEN
        PERFORM refuse('LM011', format('a lease limit of %s ms is not possible', p_lease_max_ms), 'Allow 1 to 31,536,000,000 ms (a year).');
    ELSIF p_max_attempts NOT BETWEEN 1 AND 1000000 THEN
        PERFORM refuse('LM011', format('max_attempts of %s is not possible', p_max_attempts), 'Allow 1 to 1,000,000 attempts.');
    END IF;
    UPDATE queue SET
        content_max_bytes = COALESCE(p_content_max_bytes, content_max_bytes),
        lease_max_ms = COALESCE(p_lease_max_ms, lease_max_ms),
        max_attempts = COALESCE(p_max_attempts, max_attempts);
    RETURN QUERY SELECT * FROM queue_get();
END $$;
