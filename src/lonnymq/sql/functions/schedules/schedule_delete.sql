-- Delete a schedule. If it is opened again, it starts at that time, with nothing to catch up. Waits for a call that
-- fires it. Returns whether it existed.
CREATE OR REPLACE FUNCTION schedule_delete (p_name TEXT)
RETURNS BOOLEAN LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM unbound_check('schedule_delete');
    DELETE FROM schedule s WHERE s.name = p_name;
    RETURN FOUND;
END $$;
