-- Part of a dequeue: entries that it took, and whose messages are not there, or somebody locks them or has locked them at some
-- time. A message that is gone, or has come back since, was cancelled or rescheduled. One that can be locked is served: whoever
-- wants to cancel it waits. One that cannot waits again. Returns those that are served.
CREATE OR REPLACE FUNCTION message_recheck (p_doubtful ready[])
RETURNS ready[] LANGUAGE plpgsql AS $$
DECLARE
    v_mine ready[];
BEGIN
    SELECT array_agg(r) INTO v_mine FROM unnest(p_doubtful) r
    CROSS JOIN LATERAL (
        SELECT m.id FROM message m WHERE m.id = r.id AND m.generation = r.generation FOR KEY SHARE SKIP LOCKED) m;
    INSERT INTO notice (back, channel)
    SELECT CASE WHEN m.id IS NOT NULL THEN ARRAY[ROW(r.id, r.generation)::stub] END,
        CASE WHEN r.is_limited THEN r.channel END -- its slot is free
    FROM unnest(p_doubtful) r
    LEFT JOIN LATERAL (SELECT m.id FROM message m WHERE m.id = r.id AND m.generation = r.generation OFFSET 0) m ON TRUE
    WHERE (r <> ALL (v_mine)) IS NOT FALSE AND (m.id IS NOT NULL OR r.is_limited);
    RETURN v_mine;
END $$;
