-- Decide the ticks of a schedule behind p_after, up to p_upto: a message for each of p_ticks, with the header
-- "scheduled-at"; the others are left out. It is done only if the schedule stands at p_after still, so that of any
-- number who try, one does it; and messages and position are there together, when the transaction commits. Works in
-- every isolation level. Locks the schedule, first of all; who fires the same one at the same time waits. Writes
-- nothing unless it fires. Returns 'fired', or 'skipped' when no tick was to make a message; 'lost' when it stands
-- elsewhere, 'early' when p_upto lies ahead of the server's clock, 'not_found'. And where the schedule stands now,
-- how many messages were created and how many a full channel refused, and the server's clock.
CREATE OR REPLACE FUNCTION schedule_fire (
    p_name TEXT,
    p_after BIGINT,
    p_upto BIGINT,
    p_ticks BIGINT[],
    p_channel TEXT,
    p_content BYTEA,
    p_headers JSONB DEFAULT NULL,
    p_max_attempts INT DEFAULT NULL,
    p_priority INT DEFAULT NULL,
    p_cost INT DEFAULT NULL,
    p_lane TEXT DEFAULT NULL
) RETURNS TABLE (result TEXT, ticked_at BIGINT, created BIGINT, refused BIGINT, now_at BIGINT)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    v_count INT := cardinality(p_ticks);
    v_tick BIGINT;
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
    created := 0;
    refused := 0;
    IF p_upto > clock_ms() THEN
        result := 'early';
    ELSE
        UPDATE schedule s SET ticked_at = p_upto, fired_at = COALESCE(p_ticks[v_count], s.fired_at)
        WHERE s.name = p_name AND s.ticked_at = p_after;
        IF FOUND AND v_count > 0 THEN
            result := 'fired';
            FOREACH v_tick IN ARRAY p_ticks LOOP
                IF (SELECT m.result = 'created' FROM message_create(
                    p_channel, p_content, NULL, COALESCE(p_headers, '{}') || jsonb_build_object('scheduled-at', v_tick),
                    p_max_attempts, p_priority => p_priority, p_cost => p_cost, p_lane => p_lane) m)
                THEN
                    created := created + 1;
                ELSE
                    refused := refused + 1;
                END IF;
            END LOOP;
        ELSIF FOUND THEN
            result := 'skipped';
        END IF;
    END IF;
    SELECT s.ticked_at INTO ticked_at FROM schedule s WHERE s.name = p_name;
    result := COALESCE(schedule_fire.result, CASE WHEN FOUND THEN 'lost' ELSE 'not_found' END);
    now_at := clock_ms();
    RETURN NEXT;
END $$;
