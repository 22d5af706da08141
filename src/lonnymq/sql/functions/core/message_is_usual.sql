-- Whether a message is one that message_check lets pass, told by a look that costs little. FALSE: ask message_check.
-- Planned into the statement that asks.
CREATE OR REPLACE FUNCTION message_is_usual (
    p_channel TEXT, p_content BYTEA, p_dequeue_at BIGINT, p_headers JSONB, p_max_attempts INT, p_dedupe_key TEXT,
    p_delay_ms BIGINT, p_priority INT, p_cost INT, p_lane TEXT, p_max_bytes INT)
RETURNS BOOLEAN LANGUAGE sql STABLE
RETURN COALESCE(octet_length(p_channel) BETWEEN 1 AND 255 AND octet_length(p_content) <= p_max_bytes
    AND p_lane IS NULL AND (p_dequeue_at IS NULL OR p_delay_ms IS NULL)
    AND COALESCE(p_dequeue_at BETWEEN -9007199254740992 AND 9007199254740992, TRUE)
    AND COALESCE(p_delay_ms BETWEEN 0 AND 4503599627370496, TRUE)
    AND COALESCE(p_max_attempts BETWEEN 1 AND 1000000, TRUE)
    AND COALESCE(p_priority BETWEEN -100 AND 100, TRUE) AND COALESCE(p_cost BETWEEN 1 AND 1000000, TRUE)
    AND COALESCE(jsonb_typeof(p_headers) = 'object' AND octet_length(p_headers::TEXT) <= 65536, TRUE)
    AND COALESCE(octet_length(p_dedupe_key) BETWEEN 1 AND 255, TRUE), FALSE);
