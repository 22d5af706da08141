-- The messages that notices say came back. Those that a dequeue found locked come later (alarm), and never in the
-- past: nobody looks there. p_has_limits: one that a dequeue could not lock has its old generation, and its slot.
CREATE OR REPLACE FUNCTION back_read (p_notices notice[], p_has_limits BOOLEAN, p_now BIGINT)
RETURNS entry[] LANGUAGE plpgsql AS $$
DECLARE
    v_back entry[] := entries_back(ARRAY(SELECT b FROM unnest(p_notices) w CROSS JOIN unnest(w.back) b));
BEGIN
    IF p_has_limits THEN
        PERFORM slots_leave(ARRAY(
            SELECT ROW(e.lane, 0, e.id, e.generation, e.rank, e.at, e.cost, TRUE, e.channel)::ready
                FROM unnest(v_back) e));
    END IF;
    INSERT INTO alarm (at, back)
    SELECT GREATEST(w.at, p_now + 1), b FROM unnest(p_notices) w CROSS JOIN unnest(w.back) b WHERE w.at IS NOT NULL;
    RETURN entries_back(ARRAY(SELECT b FROM unnest(p_notices) w CROSS JOIN unnest(w.back) b WHERE w.at IS NULL));
END $$;
