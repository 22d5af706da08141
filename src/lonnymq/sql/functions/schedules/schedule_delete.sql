-- Forget a schedule. Who opens it again begins then, with nothing to catch up. Waits for who fires it. Returns
-- whether there was one.
CREATE OR REPLACE FUNCTION schedule_delete (p_name TEXT)
RETURNS BOOLEAN LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM unbound_check('schedule_delete');
    DELETE FROM schedule s WHERE s.name = p_name;
    RETURN FOUND;
END $$;
