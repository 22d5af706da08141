-- The positions of schedules. New ones start now, with nothing to catch up. With their definitions (expressions and so
-- on: arrays with one element per name, all or none of them), these are stored, if they have changed, for people and
-- for schedule_run. Can be called at any time and often: it locks and writes nothing if all schedules exist and are
-- defined like this. Returns one row per name, in the order of names: the last tick that was decided, the server's
-- clock, which ticks go by, and whether the schedule is paused.
CREATE OR REPLACE FUNCTION schedule_open (
    p_names TEXT[],
    p_expressions TEXT[] DEFAULT NULL,
    p_time_zones TEXT[] DEFAULT NULL,
    p_catch_ups TEXT[] DEFAULT NULL,
    p_channels TEXT[] DEFAULT NULL,
    p_contents BYTEA[] DEFAULT NULL,
    p_options JSONB[] DEFAULT NULL
) RETURNS TABLE (name TEXT, ticked_at BIGINT, now_at BIGINT, is_paused BOOLEAN) LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    v_now BIGINT := clock_ms();
    v_changed TEXT[];
BEGIN
    PERFORM unbound_check('schedule_open');
    PERFORM array_lengths_check(cardinality(p_names), cardinality(p_expressions), cardinality(p_time_zones),
        cardinality(p_catch_ups), cardinality(p_channels), cardinality(p_contents), cardinality(p_options));
    PERFORM schedule_check(n) FROM unnest(p_names) n;
    PERFORM channel_check(c) FROM unnest(p_channels) c WHERE c IS NOT NULL;
    PERFORM lane_check((schedule_message(u.channel, u.content, u.options)).lane)
    FROM unnest(p_expressions, p_channels, p_contents, p_options) u (expression, channel, content, options)
    WHERE COALESCE(u.expression, u.channel) IS NOT NULL;
    IF EXISTS (SELECT FROM unnest(p_names) n WHERE NOT EXISTS (SELECT FROM schedule s WHERE s.name = n)) THEN
        INSERT INTO schedule (name, ticked_at, opened_at)
        SELECT n, v_now, v_now FROM (SELECT DISTINCT u COLLATE "C" FROM unnest(p_names) u) n (n)
        ORDER BY n                          -- the order prevents deadlocks between two calls
        ON CONFLICT DO NOTHING;
    END IF;
    v_changed := ARRAY(
        SELECT s.name FROM unnest(p_names, p_expressions, p_time_zones, p_catch_ups, p_channels, p_contents, p_options)
            u (name, expression, time_zone, catch_up, channel, content, options)
        CROSS JOIN LATERAL (SELECT * FROM schedule s WHERE s.name = u.name OFFSET 0) s
        WHERE u.expression IS NOT NULL
            AND (s.expression, s.time_zone, s.catch_up, s.channel, s.content, s.options)
                IS DISTINCT FROM (u.expression, u.time_zone, u.catch_up, u.channel, u.content, u.options));
    IF v_changed <> '{}' THEN
        PERFORM FROM schedule s WHERE s.name = ANY (v_changed) ORDER BY s.name FOR UPDATE;
        UPDATE schedule s SET expression = u.expression, time_zone = u.time_zone, catch_up = u.catch_up,
            channel = u.channel, content = u.content, options = u.options
        FROM unnest(p_names, p_expressions, p_time_zones, p_catch_ups, p_channels, p_contents, p_options)
            u (name, expression, time_zone, catch_up, channel, content, options)
        WHERE s.name = u.name AND s.name = ANY (v_changed);
    END IF;
    RETURN QUERY SELECT s.name::TEXT, s.ticked_at, clock_ms(), s.paused_at IS NOT NULL FROM schedule s
        WHERE s.name = ANY (p_names) ORDER BY s.name;
END $$;
