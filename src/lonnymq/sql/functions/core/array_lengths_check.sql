-- Refuse arrays that differ in length. The first one is required; others may be NULL. Returns the length.
CREATE OR REPLACE FUNCTION array_lengths_check (p_length INT, VARIADIC p_others INT[])
RETURNS INT LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF p_length IS NULL THEN
        PERFORM refuse('LM006', 'the first array is NULL', 'Give an array; it may be empty.');
    ELSIF p_length <> ANY (p_others) THEN
        PERFORM refuse('LM006', format('the arrays differ in length: the first has %s elements, the others have %s',
            p_length, array_to_string(p_others, ', ', 'NULL')),
            'Give one element per message in every array, or NULL instead of an optional array.');
    END IF;
    RETURN p_length;
END $$;
