-- The work is done: the message goes, if the caller still holds it. May run inside the caller's transaction and then counts when that commits.
-- Locks the message alone; a freed slot is said by appending, never by locking the channel.
-- Returns 'completed', 'lost' (not under this token) or 'not_found'.
CREATE OR REPLACE FUNCTION message_complete (p_id BIGINT, p_token UUID)
RETURNS TEXT LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan TO off SET jit TO off AS $$
DECLARE
    v_done RECORD;
BEGIN
    DELETE FROM message WHERE id = p_id AND token = p_token RETURNING channel, slot INTO v_done;
    IF v_done.channel IS NULL THEN
        RETURN message_missed(p_id);
    END IF;
    IF v_done.slot THEN
        INSERT INTO wake (channel) VALUES (v_done.channel);
    END IF;
    RETURN 'completed';
END $$;
