-- Remove a channel: its policy, its size, its dedupe keys, its tally. One that has messages, waiting, leased or dead, is left
-- alone, unless p_with_messages says that these go too: at most p_limit a call, and 'more' asks for another. Who holds a lease of
-- such a message finds it gone. Waits for open finishers of these messages, and for open producers to a channel with a max_size.
-- Returns 'deleted', 'more', 'not_empty' or 'not_found', and how many messages went.
CREATE OR REPLACE FUNCTION channel_delete (p_channel TEXT, p_with_messages BOOLEAN DEFAULT FALSE, p_limit INT DEFAULT 10000)
RETURNS TABLE (result TEXT, messages BIGINT) LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET enable_seqscan TO off SET enable_bitmapscan TO off SET jit TO off AS $$
#variable_conflict use_column
DECLARE
    v_tids TID[];
    v_waited INT;
    v_dead TID[];
    v_has_policy BOOLEAN;
BEGIN
    PERFORM free_check('channel_delete');
    PERFORM channel_check(p_channel);
    PERFORM limit_check(p_limit, 100000);
    messages := 0;
    IF NOT channel_is_known(p_channel) THEN
        result := 'not_found';
        RETURN NEXT;
        RETURN;
    END IF;
    PERFORM FROM channel c WHERE c.name = p_channel FOR UPDATE;
    v_has_policy := FOUND;
    -- The dead before the size, and that before the living: the order in which everybody locks them.
    IF p_with_messages THEN
        v_dead := ARRAY(SELECT d.ctid FROM dead d WHERE d.channel = p_channel ORDER BY d.channel, d.id LIMIT p_limit FOR UPDATE);
    END IF;
    PERFORM FROM capacity c WHERE c.channel = p_channel ORDER BY c.turn DESC LIMIT 1 FOR UPDATE;
    IF p_with_messages THEN
        SELECT array_agg(x.tid), COUNT(*) FILTER (WHERE NOT x.leased) INTO v_tids, v_waited
        FROM (
            SELECT m.ctid AS tid, m.leased FROM message m
            WHERE m.id = ANY (ARRAY(
                SELECT y.id FROM (
                    SELECT w.id FROM message w WHERE w.channel = p_channel AND NOT w.leased
                    UNION ALL
                    SELECT l.id FROM message l WHERE l.leased AND l.channel = p_channel
                    LIMIT p_limit) y)) AND m.channel = p_channel
            FOR UPDATE) x;
        messages := COALESCE(cardinality(v_tids), 0);
        IF messages > 0 THEN
            PERFORM message_end(v_tids, array_fill('cancelled'::TEXT, ARRAY[messages::INT]), NULL, NULL, clock_ms());
            INSERT INTO wake (n) VALUES (-v_waited);
        END IF;
        v_dead := v_dead[: p_limit - messages];
        DELETE FROM dead d WHERE d.ctid = ANY (v_dead);
        messages := messages + cardinality(v_dead);
    END IF;
    IF channel_is_used(p_channel) THEN
        result := CASE WHEN p_with_messages THEN 'more' ELSE 'not_empty' END;
    ELSE
        -- A policy that somebody makes at this moment, and that was not there to be locked first, stays: it comes after. So do the size
        -- and the departures that belong to it: one statement decides over both, by one snapshot.
        DELETE FROM channel c WHERE v_has_policy AND c.name = p_channel;
        WITH no_size AS (DELETE FROM capacity c WHERE c.channel = p_channel AND NOT EXISTS (SELECT FROM channel x WHERE x.name = p_channel))
        DELETE FROM departure d WHERE d.channel = p_channel AND NOT EXISTS (SELECT FROM channel x WHERE x.name = p_channel);
        -- What was created meanwhile keeps its key. One that somebody takes at this moment is not waited for: he may wait for this call.
        DELETE FROM dedupe d WHERE d.ctid = ANY (ARRAY(
            SELECT x.ctid FROM dedupe x WHERE x.channel = p_channel AND x.until_at IS NOT NULL ORDER BY x.channel, x.key FOR UPDATE SKIP LOCKED));
        DELETE FROM tally t WHERE t.channel = p_channel;
        PERFORM ring_drop(p_channel);
        result := 'deleted';
    END IF;
    INSERT INTO wake (channel) VALUES (p_channel);
    PERFORM wake_notify();
    RETURN NEXT;
END $$;
