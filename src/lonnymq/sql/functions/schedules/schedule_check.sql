-- Refuse a schedule's name that is missing, empty or too long.
CREATE OR REPLACE FUNCTION schedule_check (p_name TEXT)
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF p_name IS NULL OR octet_length(p_name) NOT BETWEEN 1 AND 255 THEN
        PERFORM refuse('LM010',
            format('the schedule''s name is %s', COALESCE(octet_length(p_name) || ' bytes long', 'NULL')),
            'Give a name of 1 to 255 bytes.');
    END IF;
END $$;
