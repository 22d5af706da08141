-- The messages that notices say came back. A notice with a time is about a message that a dequeue found locked: it gets
-- an alarm for that time, but not one in the past, where it would not be read. Such a message has kept its generation,
-- so its slot must be removed (p_has_limits).
CREATE OR REPLACE FUNCTION entries_returned (p_notices notice[], p_has_limits BOOLEAN, p_now BIGINT)
RETURNS entry[] LANGUAGE plpgsql AS $$
DECLARE
    v_back entry[] := entries_of(ARRAY(SELECT b FROM unnest(p_notices) w CROSS JOIN unnest(w.back) b));
BEGIN
    IF p_has_limits THEN
        PERFORM slots_remove(ARRAY(
            SELECT ROW(e.lane, 0, e.id, e.generation, e.rank, e.at, e.cost, TRUE, e.channel)::ready
                FROM unnest(v_back) e));
    END IF;
    INSERT INTO alarm (at, back)
    SELECT GREATEST(w.at, p_now + 1), b FROM unnest(p_notices) w CROSS JOIN unnest(w.back) b WHERE w.at IS NOT NULL;
    RETURN entries_of(ARRAY(SELECT b FROM unnest(p_notices) w CROSS JOIN unnest(w.back) b WHERE w.at IS NULL));
END $$;
