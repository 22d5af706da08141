-- Refuse a number of rows that is out of range.
CREATE OR REPLACE FUNCTION limit_check (p_limit INT, p_max INT)
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF p_limit IS NULL OR p_limit NOT BETWEEN 1 AND p_max THEN
        PERFORM refuse('LM005', format('a limit of %s is out of range', COALESCE(p_limit::TEXT, 'NULL')),
            format('Ask for 1 to %s.', p_max));
    END IF;
END $$;
