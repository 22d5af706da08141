-- Refuse a schedule's name that is missing, empty or too long.
CREATE OR REPLACE FUNCTION schedule_check (p_name TEXT)
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF p_name IS NULL OR octet_length(p_name) NOT BETWEEN 1 AND 255 THEN
        PERFORM refuse('LM010', 'the schedule''s name is null, empty or too long', 'Give it 1 to 255 bytes.');
    END IF;
END $$;
