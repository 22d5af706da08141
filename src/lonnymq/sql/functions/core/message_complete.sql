-- The work is done: the message goes, if the caller still holds it. May run inside the caller's transaction and then counts when that commits.
-- Locks the message alone, and its dedupe key if it has one; a freed slot is said by appending, never by locking the channel.
-- Returns 'completed', 'cancelled' (it goes, and nobody wanted it any more), 'lost' (not under this token) or 'not_found'.
CREATE OR REPLACE FUNCTION message_complete (p_id BIGINT, p_token UUID)
RETURNS TEXT LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan TO off SET jit TO off AS $$
DECLARE
    v_done RECORD;
BEGIN
    DELETE FROM message WHERE id = p_id AND token = p_token AND NOT is_counted AND NOT is_cancelled AND dedupe_key IS NULL
        AND NOT (SELECT q.history FROM queue q)
    RETURNING channel, slot INTO v_done;
    IF v_done.channel IS NULL THEN          -- there is more to do than that, or it is not the caller's
        RETURN (SELECT x.result FROM message_complete_many(ARRAY[p_id], ARRAY[p_token]) x);
    END IF;
    IF v_done.slot THEN
        INSERT INTO wake (channel) VALUES (v_done.channel);
        PERFORM wake_notify();
    END IF;
    RETURN 'completed';
END $$;
