-- Save a result under a name of 1 to 255 bytes, for programs that know their work by another id than the message's. It
-- replaces the one of this name, and is kept for p_keep_ms; 0 deletes it. It can be as large as content. Locks the row.
-- Returns until when it is kept.
CREATE OR REPLACE FUNCTION result_save (
    p_name TEXT, p_content BYTEA, p_content_type TEXT DEFAULT NULL, p_keep_ms BIGINT DEFAULT 86400000)
RETURNS BIGINT LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    v_now BIGINT := clock_ms();
BEGIN
    PERFORM unbound_check('result_save');
    IF name_is_valid(p_name) IS NOT TRUE THEN
        PERFORM refuse('LM010',
            format('the result''s name is %s', COALESCE(octet_length(p_name) || ' bytes long', 'NULL')),
            'Give a name of 1 to 255 bytes.');
    ELSIF p_content IS NULL OR p_keep_ms IS NULL THEN
        PERFORM refuse('LM010', format('%s is NULL', CASE WHEN p_content IS NULL THEN 'p_content' ELSE 'p_keep_ms' END),
            'Give the bytes to save, and how long to keep them.');
    END IF;
    PERFORM results_check(1, ARRAY[p_content], ARRAY[p_content_type], ARRAY[p_keep_ms]);
    IF p_keep_ms = 0 THEN
        DELETE FROM saved_result s WHERE s.name = p_name;
    ELSE
        INSERT INTO saved_result AS s (name, until_at, saved_at, content_type, content)
        VALUES (p_name, v_now + p_keep_ms, v_now, p_content_type, p_content)
        ON CONFLICT (name) DO UPDATE SET until_at = excluded.until_at, saved_at = excluded.saved_at,
            content_type = excluded.content_type, content = excluded.content;
    END IF;
    RETURN v_now + p_keep_ms;
END $$;
