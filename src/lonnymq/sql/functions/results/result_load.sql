-- The result that result_save has saved under a name; no row if there is none, or its time is over. With FALSE for
-- p_with_content, content is NULL. Locks nothing.
CREATE OR REPLACE FUNCTION result_load (p_name TEXT, p_with_content BOOLEAN DEFAULT TRUE)
RETURNS TABLE (name TEXT, saved_at BIGINT, until_at BIGINT, content_type TEXT, content BYTEA)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM unbound_check('result_load');
    RETURN QUERY
    SELECT s.name::TEXT, s.saved_at, s.until_at, s.content_type, CASE WHEN p_with_content THEN s.content END
    FROM saved_result s WHERE s.name = p_name AND s.until_at > clock_ms();
END $$;
