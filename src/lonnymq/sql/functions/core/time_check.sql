-- Refuse a time that is out of range. p_place says which element of a batch it was.
CREATE OR REPLACE FUNCTION time_check (p_at BIGINT, p_place TEXT DEFAULT '')
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF NOT time_is_valid(p_at) THEN
        PERFORM refuse('LM003', format('the time %s is out of range%s', p_at, p_place),
            'Give Unix milliseconds between -2^53 and 2^53.');
    END IF;
END $$;
