-- Part of a dequeue: whether a message that somebody locks, or has locked at some time, can be served: then it is
-- locked, and whoever wants to cancel or reschedule it waits.
CREATE OR REPLACE FUNCTION message_lock_if_free (p_id BIGINT, p_generation INT)
RETURNS BOOLEAN LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM message m WHERE m.id = p_id AND m.generation = p_generation FOR KEY SHARE SKIP LOCKED;
    RETURN FOUND;
END $$;
