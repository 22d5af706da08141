-- All schedules that were opened, by name, without the content of their messages: schedule_get shows that. ticked_at is
-- the last tick that was decided, fired_at the last one that was fired. paused_at NULL: it is not paused. The
-- definition is NULL if no worker has given one.
CREATE OR REPLACE FUNCTION schedule_list ()
RETURNS TABLE (
    name TEXT, ticked_at BIGINT, fired_at BIGINT, opened_at BIGINT, paused_at BIGINT, refused BIGINT, refused_at BIGINT,
    expression TEXT, time_zone TEXT, catch_up TEXT, channel TEXT)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM unbound_check('schedule_list');
    RETURN QUERY
    SELECT s.name::TEXT, s.ticked_at, s.fired_at, s.opened_at, s.paused_at, s.refused, s.refused_at, s.expression,
        s.time_zone, s.catch_up, s.channel
    FROM schedule s ORDER BY s.name;
END $$;
