-- The positions of schedules. New ones start now, with nothing to catch up. Can be called at any time and often: it
-- locks nothing that already exists, and writes nothing if all schedules exist. Returns one row per name, in the order
-- of names: the last tick that was decided, and the server's clock, which ticks go by.
CREATE OR REPLACE FUNCTION schedule_open (p_names TEXT[])
RETURNS TABLE (name TEXT, ticked_at BIGINT, now_at BIGINT) LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    v_now BIGINT := clock_ms();
BEGIN
    PERFORM unbound_check('schedule_open');
    PERFORM array_lengths_check(cardinality(p_names), NULL);
    PERFORM schedule_check(n) FROM unnest(p_names) n;
    IF EXISTS (SELECT FROM unnest(p_names) n WHERE NOT EXISTS (SELECT FROM schedule s WHERE s.name = n)) THEN
        INSERT INTO schedule (name, ticked_at, opened_at)
        SELECT n, v_now, v_now FROM (SELECT DISTINCT u COLLATE "C" FROM unnest(p_names) u) n (n)
        ORDER BY n                          -- the order prevents deadlocks between two calls
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN QUERY SELECT s.name::TEXT, s.ticked_at, clock_ms() FROM schedule s WHERE s.name = ANY (p_names)
        ORDER BY s.name;
END $$;
