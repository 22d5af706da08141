-- Refuse a message that cannot be queued, and say what is wrong with it. Returns TRUE for all others.
CREATE OR REPLACE FUNCTION message_check (
    p_channel TEXT, p_content BYTEA, p_dequeue_at BIGINT, p_headers JSONB, p_max_attempts INT, p_dedupe_key TEXT,
    p_delay_ms BIGINT, p_priority INT, p_cost INT, p_lane TEXT, p_place TEXT DEFAULT '')
RETURNS BOOLEAN LANGUAGE plpgsql AS $$
DECLARE
    v_max INT;
BEGIN
    PERFORM channel_check(p_channel, p_place);
    PERFORM time_check(p_dequeue_at, p_place);
    PERFORM delay_check(p_delay_ms, p_dequeue_at, p_place);
    PERFORM lane_check(p_lane, p_place);
    SELECT content_max_bytes INTO v_max FROM queue;
    IF p_content IS NULL THEN
        PERFORM refuse('LM002', 'a message needs content' || p_place, 'Give bytes; they may be empty.');
    ELSIF octet_length(p_content) > v_max THEN
        PERFORM refuse('LM002', format('the content is %s bytes long%s', octet_length(p_content), p_place),
            format('At most %s bytes are allowed; queue_set(p_content_max_bytes => ...) changes that.', v_max));
    END IF;
    IF p_max_attempts NOT BETWEEN 1 AND 1000000 THEN
        PERFORM refuse('LM008', format('max_attempts of %s is out of range%s', p_max_attempts, p_place),
            'Allow 1 to 1,000,000 attempts.');
    END IF;
    IF jsonb_typeof(p_headers) <> 'object' THEN
        PERFORM refuse('LM010', format('the headers are a JSON %s%s', jsonb_typeof(p_headers), p_place),
            'Give headers as a JSON object.');
    ELSIF octet_length(p_headers::TEXT) > 65536 THEN
        PERFORM refuse('LM010', format('the headers are %s bytes long%s', octet_length(p_headers::TEXT), p_place),
            'At most 65,536 bytes of headers are allowed; what is larger belongs into the content.');
    END IF;
    IF octet_length(p_dedupe_key) NOT BETWEEN 1 AND 255 THEN
        PERFORM refuse('LM010', format('the dedupe key is %s bytes long%s', octet_length(p_dedupe_key), p_place),
            'Give 1 to 255 bytes of text, or NULL for none.');
    END IF;
    IF p_priority NOT BETWEEN -100 AND 100 THEN
        PERFORM refuse('LM010', format('a priority of %s is not possible%s', p_priority, p_place),
            'Give -100 to 100; what is higher is served first within its channel.');
    ELSIF p_cost NOT BETWEEN 1 AND 1000000 THEN
        PERFORM refuse('LM010', format('a cost of %s is not possible%s', p_cost, p_place), 'Give 1 to 1,000,000.');
    END IF;
    RETURN TRUE;
END $$;
