-- Part of a dequeue: handle entries that it took and whose messages it does not serve. Those in p_back are locked by
-- somebody at this moment, and come back in one second. The others were cancelled or rescheduled, and their slots are
-- free. Returns what is left of p_taken.
CREATE OR REPLACE FUNCTION ready_skip (p_taken ready[], p_not ready[], p_back stub[], p_now BIGINT)
RETURNS ready[] LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO notice (back, at) SELECT p_back, p_now + 1000 WHERE p_back IS NOT NULL;
    INSERT INTO notice (channel) SELECT DISTINCT r.channel FROM unnest(p_not) r WHERE r.is_limited;
    RETURN ARRAY(                           -- compared behind a COALESCE, where they are looked up in a hash
        SELECT r FROM unnest(p_taken) r
        WHERE COALESCE((r.id, r.generation) NOT IN (SELECT n.id, n.generation FROM unnest(p_not) n), TRUE));
END $$;
