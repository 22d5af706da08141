-- All schedules that were opened, by name: the last tick that was decided, the last tick that was fired, and when the
-- schedule was opened.
CREATE OR REPLACE FUNCTION schedule_list ()
RETURNS TABLE (name TEXT, ticked_at BIGINT, fired_at BIGINT, opened_at BIGINT) LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM unbound_check('schedule_list');
    RETURN QUERY SELECT s.name::TEXT, s.ticked_at, s.fired_at, s.opened_at FROM schedule s ORDER BY s.name;
END $$;
