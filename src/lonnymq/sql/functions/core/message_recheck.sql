-- Part of a dequeue: messages that it took, and that are not there, or that somebody locks or has locked at some time. One that
-- is gone, or has come back since, was cancelled or rescheduled. One that can be locked is served: whoever wants to cancel it
-- waits. One that cannot waits again. Returns those that are served.
CREATE OR REPLACE FUNCTION message_recheck (p_doubtful stub[])
RETURNS stub[] LANGUAGE plpgsql AS $$
DECLARE
    v_locked stub[];
    v_back stub[];
BEGIN
    SELECT array_agg(s) INTO v_locked FROM unnest(p_doubtful) s
    CROSS JOIN LATERAL (
        SELECT m.id FROM message m WHERE m.id = s.id AND m.generation = s.generation FOR KEY SHARE SKIP LOCKED) m;
    SELECT array_agg(s) INTO v_back FROM unnest(p_doubtful) s
    CROSS JOIN LATERAL (SELECT FROM message m WHERE m.id = s.id AND m.generation = s.generation OFFSET 0) m
    WHERE s <> ALL (COALESCE(v_locked, '{}'));
    IF v_back IS NOT NULL THEN
        INSERT INTO notice (back) VALUES (v_back);
    END IF;
    RETURN v_locked;
END $$;
