-- Let a paused schedule fire again. The ticks that it missed while it was paused are skipped. With p_catch_up they are
-- treated like those that were missed because no worker ran: the worker's catch_up decides. Returns 'resumed', also if
-- it was not paused, or 'not_found'.
CREATE OR REPLACE FUNCTION schedule_resume (p_name TEXT, p_catch_up BOOLEAN DEFAULT FALSE)
RETURNS TEXT LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM unbound_check('schedule_resume');
    UPDATE schedule s SET paused_at = NULL, ticked_at = CASE WHEN s.paused_at IS NULL OR p_catch_up THEN s.ticked_at
        ELSE GREATEST(s.ticked_at, clock_ms()) END
    WHERE s.name = p_name;
    RETURN CASE WHEN FOUND THEN 'resumed' ELSE 'not_found' END;
END $$;
