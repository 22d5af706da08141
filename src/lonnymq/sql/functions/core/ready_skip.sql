-- Part of a dequeue: handle entries that it took and whose messages it does not serve. Those in p_back are locked by
-- somebody at this moment, and come back in one second. The others were cancelled or rescheduled, and their slots are
-- free. Returns what is left of p_taken.
CREATE OR REPLACE FUNCTION ready_skip (p_taken ready[], p_skipped ready[], p_back stub[], p_now BIGINT)
RETURNS ready[] LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO notice (back, at) SELECT p_back, p_now + 1000 WHERE p_back IS NOT NULL;
    INSERT INTO notice (channel) SELECT DISTINCT r.channel FROM unnest(p_skipped) r WHERE r.is_limited;
    RETURN ARRAY(                           -- COALESCE makes the planner look them up in a hash table
        SELECT r FROM unnest(p_taken) r
        WHERE COALESCE((r.id, r.generation) NOT IN (SELECT n.id, n.generation FROM unnest(p_skipped) n), TRUE));
END $$;
