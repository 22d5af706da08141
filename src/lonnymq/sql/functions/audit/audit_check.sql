-- Refuse a text of an audit row that is missing, empty or too long.
CREATE OR REPLACE FUNCTION audit_check (p_name TEXT, p_text TEXT, p_max INT)
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF COALESCE(p_text, '') = '' THEN
        PERFORM refuse('LM010', format('%s is empty', p_name), format('Give 1 to %s characters.', p_max));
    ELSIF length(p_text) > p_max THEN
        PERFORM refuse('LM010', format('%s is %s characters long', p_name, length(p_text)),
            format('Give 1 to %s characters.', p_max));
    END IF;
END $$;
