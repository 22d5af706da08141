-- A regular expression that matches the whole name of a channel if p_pattern does. Refuses a text that is not a regular
-- expression. A leading (?i) stays in front: it ignores case.
CREATE OR REPLACE FUNCTION pattern_whole (p_pattern TEXT)
RETURNS TEXT LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_flag TEXT := CASE WHEN starts_with(p_pattern, '(?i)') THEN '(?i)' ELSE '' END;
    v_whole TEXT := v_flag || '^(?:' || substr(p_pattern, 1 + length(v_flag)) || ')$';
BEGIN
    PERFORM '' ~ p_pattern, '' ~ v_whole;
    RETURN v_whole;
EXCEPTION WHEN invalid_regular_expression THEN
    PERFORM refuse('LM010', format('p_pattern %s: %s', quote_literal(left(p_pattern, 100)), SQLERRM),
        'Give a regular expression of PostgreSQL that matches whole names, for example tenant-.*');
END $$;
