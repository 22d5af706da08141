-- Decide the times of a schedule after p_after, up to p_upto: create a message for each of p_ticks, with the header
-- "scheduled-at", and none for the others. This happens only if the schedule is decided up to exactly p_after, so of
-- any number of callers one succeeds. The messages and the new position are committed together. Works at every
-- isolation level. Locks the schedule before anything else: callers that fire the same one wait. Writes nothing unless
-- it fires. Returns 'fired', or 'skipped' if p_ticks is empty; 'lost' if the schedule is decided up to another time;
-- 'early' if p_upto is after the server's clock; 'paused', which decides nothing; or 'not_found'. Also returns up to
-- which time the schedule is decided now, how many messages were created, how many a full channel refused (the
-- schedule counts them, too), and the server's clock.
CREATE OR REPLACE FUNCTION schedule_fire (
    p_name TEXT,
    p_after BIGINT,
    p_upto BIGINT,
    p_ticks BIGINT[],
    p_channel TEXT,
    p_content BYTEA,
    p_options JSONB DEFAULT NULL            -- options of message_create: {"headers": {...}, "priority": 7}
) RETURNS TABLE (result TEXT, ticked_at BIGINT, created BIGINT, refused BIGINT, now_at BIGINT)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    v_count INT := cardinality(p_ticks);
    v_message new_message;
    v_fired_at BIGINT := (SELECT s.fired_at FROM schedule s WHERE s.name = p_name);
BEGIN
    PERFORM unbound_check('schedule_fire');
    PERFORM schedule_check(p_name);
    PERFORM array_lengths_check(v_count, NULL);
    IF v_count > 1000 THEN
        PERFORM refuse('LM005', format('%s ticks are too many for one call', v_count), 'Fire up to 1,000 at a time.');
    END IF;
    IF (p_after < p_upto AND p_after >= -9007199254740992 AND p_upto <= 9007199254740992) IS NOT TRUE OR EXISTS (
        SELECT FROM unnest(p_ticks) WITH ORDINALITY u (tick, n)
        WHERE (tick > CASE WHEN n = 1 THEN p_after ELSE p_ticks[n - 1] END AND tick <= p_upto) IS NOT TRUE)
    THEN
        PERFORM refuse('LM003',
            format('the ticks of schedule %s are out of order or out of range', quote_literal(p_name)),
            'Give ticks that ascend from above p_after to p_upto at most, in Unix milliseconds.');
    END IF;
    v_message := schedule_message(p_channel, p_content, p_options);
    PERFORM lane_check(v_message.lane);
    created := 0;
    refused := 0;
    IF p_upto > clock_ms() THEN
        result := 'early';
    ELSE
        UPDATE schedule s SET ticked_at = p_upto, fired_at = COALESCE(p_ticks[v_count], s.fired_at)
        WHERE s.name = p_name AND s.ticked_at = p_after AND s.paused_at IS NULL;
        IF FOUND AND v_count > 0 THEN
            result := 'fired';
            SELECT COUNT(*) FILTER (WHERE m.result = 'created'), COUNT(*) FILTER (WHERE m.result <> 'created')
            INTO created, refused
            FROM messages_create(ARRAY(
                SELECT jsonb_populate_record(v_message, jsonb_build_object('headers',
                    COALESCE(v_message.headers, '{}') || jsonb_build_object('scheduled-at', tick)))
                FROM unnest(p_ticks) tick), FALSE) m;
            IF refused > 0 THEN
                UPDATE schedule s SET refused = s.refused + schedule_fire.refused, refused_at = clock_ms(),
                    fired_at = CASE WHEN schedule_fire.created > 0 THEN s.fired_at ELSE v_fired_at END
                WHERE s.name = p_name;
            END IF;
        ELSIF FOUND THEN
            result := 'skipped';
        END IF;
    END IF;
    SELECT s.ticked_at, COALESCE(schedule_fire.result, CASE WHEN s.paused_at IS NULL THEN 'lost' ELSE 'paused' END)
    INTO ticked_at, result FROM schedule s WHERE s.name = p_name;
    result := COALESCE(schedule_fire.result, 'not_found');
    now_at := clock_ms();
    RETURN NEXT;
END $$;
