-- Refuse a text that is not a regular expression.
CREATE OR REPLACE FUNCTION pattern_check (p_pattern TEXT)
RETURNS VOID LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM '' ~ p_pattern, '' ~ ('^(?:' || p_pattern || ')$');
EXCEPTION WHEN invalid_regular_expression THEN
    PERFORM refuse('LM010', format('p_pattern %s: %s', quote_literal(left(p_pattern, 100)), SQLERRM),
        'Give a regular expression of PostgreSQL that matches whole names, for example tenant-.*');
END $$;
