-- One schedule, as schedule_list shows it, with the content and the options of its messages; no row if there is none.
CREATE OR REPLACE FUNCTION schedule_get (p_name TEXT)
RETURNS TABLE (
    name TEXT, ticked_at BIGINT, fired_at BIGINT, opened_at BIGINT, paused_at BIGINT, refused BIGINT, refused_at BIGINT,
    expression TEXT, time_zone TEXT, catch_up TEXT, channel TEXT, content BYTEA, headers JSONB, options JSONB)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM unbound_check('schedule_get');
    RETURN QUERY
    SELECT s.name::TEXT, s.ticked_at, s.fired_at, s.opened_at, s.paused_at, s.refused, s.refused_at, s.expression,
        s.time_zone, s.catch_up, s.channel, s.content, s.options -> 'headers', s.options - 'headers'
    FROM schedule s WHERE s.name = p_name;
END $$;
