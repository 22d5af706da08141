-- Delete a channel: its policy, its size, its dedupe keys and its statistics. A channel that has messages (waiting,
-- leased or dead) is left alone, unless p_with_messages is TRUE: then they are deleted too, at most p_limit per call,
-- and 'more' means that another call is needed. That is possible at READ COMMITTED only. A consumer that holds such a
-- message finds it gone.
-- Waits for open dequeues and finishing calls of these messages, and for open producers to a channel with a max_size.
-- Returns 'deleted', 'more', 'not_empty' or 'not_found', and how many messages were deleted.
CREATE OR REPLACE FUNCTION channel_delete (
    p_channel TEXT, p_with_messages BOOLEAN DEFAULT FALSE, p_limit INT DEFAULT 10000)
RETURNS TABLE (result TEXT, messages BIGINT) LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    v_dead BIGINT[];
    v_has_policy BOOLEAN;
BEGIN
    IF p_with_messages THEN
        PERFORM isolation_check('channel_delete with messages');
    END IF;
    PERFORM unbound_check('channel_delete');
    PERFORM channel_check(p_channel);
    PERFORM limit_check(p_limit, 100000);
    messages := 0;
    IF NOT channel_exists(p_channel) THEN
        result := 'not_found';
        RETURN NEXT;
        RETURN;
    END IF;
    PERFORM FROM channel c WHERE c.name = p_channel FOR UPDATE;
    v_has_policy := FOUND;
    -- Dead messages, then the size, then messages: the order in which every call locks them.
    IF p_with_messages THEN
        v_dead := ARRAY(
            SELECT d.id FROM dead d WHERE d.channel = p_channel ORDER BY d.channel, d.id LIMIT p_limit FOR UPDATE);
    END IF;
    PERFORM FROM capacity c WHERE c.channel = p_channel ORDER BY c.turn DESC LIMIT 1 FOR UPDATE;
    IF p_with_messages THEN
        messages := channel_delete_messages(p_channel, p_limit);
        v_dead := v_dead[: p_limit - messages];
        DELETE FROM dead d WHERE d.id = ANY (v_dead);
        messages := messages + cardinality(v_dead);
    END IF;
    IF channel_has_messages(p_channel) THEN
        result := CASE WHEN p_with_messages THEN 'more' ELSE 'not_empty' END;
    ELSE
        PERFORM channel_forget(p_channel, v_has_policy);
        result := 'deleted';
    END IF;
    INSERT INTO notice (channel) VALUES (p_channel);
    PERFORM sleep_notify();
    RETURN NEXT;
END $$;
