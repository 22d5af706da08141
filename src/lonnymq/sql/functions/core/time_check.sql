-- Refuse a time that a double cannot hold exactly: clients in every language must be able to read it.
CREATE OR REPLACE FUNCTION time_check (p_at BIGINT, p_place TEXT DEFAULT '')
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF p_at NOT BETWEEN -9007199254740992 AND 9007199254740992 THEN
        PERFORM refuse('LM003', format('the time %s is out of range%s', p_at, p_place),
            'Give Unix milliseconds between -2^53 and 2^53.');
    END IF;
END $$;
