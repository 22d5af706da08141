-- Refuse a message that cannot be created, and say what is wrong with it. Returns TRUE for all others.
-- p_place says which message of a batch it is. This is one expression, which PostgreSQL plans into the statement that
-- calls it, so that a valid message costs a few comparisons. lanes_check checks how many lanes there are.
CREATE OR REPLACE FUNCTION message_check (p new_message, p_content_max_bytes INT, p_place TEXT DEFAULT '')
RETURNS BOOLEAN LANGUAGE sql AS $$
SELECT CASE
    WHEN name_is_valid(p.channel) IS NOT TRUE THEN channel_check(p.channel, p_place) IS NULL
    WHEN NOT time_is_valid(p.dequeue_at) THEN time_check(p.dequeue_at, p_place) IS NULL
    WHEN p.delay_ms IS NOT NULL AND (p.dequeue_at IS NOT NULL OR NOT delay_is_valid(p.delay_ms))
        THEN delay_check(p.delay_ms, p.dequeue_at, p_place) IS NULL
    WHEN NOT name_is_valid(p.lane) THEN lane_check(p.lane, p_place) IS NULL
    WHEN p.content IS NULL
        THEN refuse('LM002', 'a message needs content' || p_place, 'Give bytes; they may be empty.') IS NULL
    WHEN octet_length(p.content) > p_content_max_bytes
        THEN refuse('LM002', format('the content is %s bytes long%s', octet_length(p.content), p_place),
            format('At most %s bytes are allowed; queue_set(p_content_max_bytes => ...) changes that.',
                p_content_max_bytes)) IS NULL
    WHEN p.max_attempts NOT BETWEEN 1 AND 1000000
        THEN refuse('LM008', format('max_attempts of %s is out of range%s', p.max_attempts, p_place),
            'Allow 1 to 1,000,000 attempts.') IS NULL
    WHEN jsonb_typeof(p.headers) <> 'object'
        THEN refuse('LM010', format('the headers are a JSON %s%s', jsonb_typeof(p.headers), p_place),
            'Give headers as a JSON object.') IS NULL
    WHEN octet_length(p.headers::TEXT) > 65536
        THEN refuse('LM010', format('the headers are %s bytes long%s', octet_length(p.headers::TEXT), p_place),
            'At most 65,536 bytes of headers are allowed; put larger data into the content.') IS NULL
    WHEN NOT name_is_valid(p.dedupe_key)
        THEN refuse('LM010', format('the dedupe key is %s bytes long%s', octet_length(p.dedupe_key), p_place),
            'Give 1 to 255 bytes of text, or NULL for none.') IS NULL
    WHEN (p.unique_while IS NOT NULL OR p.unique_for_ms IS NOT NULL) AND (p.dedupe_key IS NULL
        OR p.unique_while NOT IN ('waiting', 'running') OR p.unique_for_ms NOT BETWEEN 0 AND 31536000000
        OR p.unique_while = 'waiting' AND p.unique_for_ms IS NOT NULL) IS TRUE THEN unique_check(p, p_place) IS NULL
    WHEN p.priority NOT BETWEEN -100 AND 100
        THEN refuse('LM010', format('a priority of %s is out of range%s', p.priority, p_place),
            'Give -100 to 100; a higher priority is served first within its channel.') IS NULL
    WHEN p.cost NOT BETWEEN 1 AND 1000000
        THEN refuse('LM010', format('a cost of %s is out of range%s', p.cost, p_place), 'Give 1 to 1,000,000.') IS NULL
    WHEN p.keep_result_ms NOT BETWEEN 0 AND 31536000000
        THEN keep_result_check(p.keep_result_ms, p_place) IS NULL
    ELSE TRUE
END
$$;
