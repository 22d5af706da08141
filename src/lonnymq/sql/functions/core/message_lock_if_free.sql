-- Part of a dequeue: whether a message that somebody has locked, or had locked, can be served. If so, it is locked
-- here, and a call that wants to cancel or reschedule it waits.
CREATE OR REPLACE FUNCTION message_lock_if_free (p_id BIGINT, p_generation INT)
RETURNS BOOLEAN LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM message m WHERE m.id = p_id AND m.generation = p_generation FOR KEY SHARE SKIP LOCKED;
    RETURN FOUND;
END $$;
