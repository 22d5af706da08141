-- Create the message of a schedule now, from the definition that a worker gave last. Its header "scheduled-at" is the
-- time of the call, and "schedule-run" is true. The schedule does not move, and need not be paused or running. Returns
-- the message's id and 'created'; NULL and 'full' if its channel is full, 'undefined' if no worker has given a
-- definition, or 'not_found'.
CREATE OR REPLACE FUNCTION schedule_run (p_name TEXT, OUT id BIGINT, OUT result TEXT)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    s schedule;
    v_message new_message;
BEGIN
    PERFORM unbound_check('schedule_run');
    SELECT * INTO s FROM schedule x WHERE x.name = p_name;
    IF s.channel IS NULL THEN
        result := CASE WHEN FOUND THEN 'undefined' ELSE 'not_found' END;
        RETURN;
    END IF;
    v_message := schedule_message(s.channel, s.content, s.options);
    PERFORM lane_check(v_message.lane);
    v_message.headers := COALESCE(v_message.headers, '{}')
        || jsonb_build_object('scheduled-at', clock_ms(), 'schedule-run', TRUE);
    SELECT m.id, m.result INTO id, result FROM messages_create(ARRAY[v_message], FALSE) m;
END $$;
