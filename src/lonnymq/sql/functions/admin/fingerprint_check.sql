-- Refuse a text that cannot be the fingerprint of a group of dead letters. NULL is allowed.
CREATE OR REPLACE FUNCTION fingerprint_check (p_fingerprint TEXT)
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF p_fingerprint !~ '^[0-9a-f]{12}$' THEN
        PERFORM refuse('LM013', format('%s is not a fingerprint', quote_literal(left(p_fingerprint, 100))),
            'List the groups of dead letters: each has one.');
    END IF;
END $$;
