-- Pause a schedule: it fires nothing until schedule_resume. Waits for a call that fires it. Returns 'paused', also if
-- it was paused before, or 'not_found'.
CREATE OR REPLACE FUNCTION schedule_pause (p_name TEXT)
RETURNS TEXT LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM unbound_check('schedule_pause');
    UPDATE schedule s SET paused_at = COALESCE(s.paused_at, clock_ms()) WHERE s.name = p_name;
    RETURN CASE WHEN FOUND THEN 'paused' ELSE 'not_found' END;
END $$;
