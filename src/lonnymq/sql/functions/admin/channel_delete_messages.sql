-- Part of channel_delete: delete up to p_limit messages of a channel, waiting or leased. Locks them in the order of
-- their ids, as every call does. Returns how many.
CREATE OR REPLACE FUNCTION channel_delete_messages (p_channel TEXT, p_limit INT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    v_ids BIGINT[] := message_lock(ARRAY(SELECT m.id FROM channel_messages(p_channel) m LIMIT p_limit));
    v_endings ending[];
    v_leased ending[];
BEGIN
    IF v_ids <> '{}' THEN
        v_endings := message_withdraw(v_ids, 'cancelled');
        PERFORM message_finish(v_endings, clock_ms()); -- all at once, because it locks batches in their order
        v_leased := ARRAY(SELECT e FROM unnest(v_endings) e WHERE e.token IS NOT NULL);
        IF v_leased <> '{}' THEN
            PERFORM lease_close(v_leased);
            PERFORM slots_notify(ARRAY[p_channel]);
        END IF;
        PERFORM cancelled_notify(ARRAY(SELECT e FROM unnest(v_endings) e WHERE e.token IS NULL));
    END IF;
    RETURN cardinality(v_ids);
END $$;
