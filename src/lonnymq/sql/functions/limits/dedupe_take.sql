-- Take a key for a message. Returns NULL, or the id of the message that already holds the key. A dead message that is
-- retried takes its own key again. Waits only for a transaction that takes or frees the same key at this moment. Each
-- failed try means that another transaction committed a change of the key meanwhile; after 100 of them it gives up.
CREATE OR REPLACE FUNCTION dedupe_take (p_channel TEXT, p_key TEXT, p_id BIGINT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    d dedupe;
    v_turn BIGINT := 0;
    v_now BIGINT;                           -- read once per try, so that both uses see the same time
BEGIN
    FOR i IN 1 .. 200 LOOP
        -- Turn 0 is free only if the key is. Another turn is inserted only to wait for whoever changes that row.
        INSERT INTO dedupe (channel, key, turn, message_id)
        VALUES (p_channel, p_key, v_turn, p_id) ON CONFLICT DO NOTHING;
        IF FOUND AND v_turn = 0 THEN
            RETURN NULL;
        ELSIF FOUND THEN                    -- that row was taken over or deleted meanwhile
            EXIT WHEN current_setting('transaction_isolation') IN ('repeatable read', 'serializable');
            DELETE FROM dedupe x WHERE x.channel = p_channel AND x.key = p_key AND x.turn = v_turn;
            v_turn := 0;
            CONTINUE;
        END IF;
        v_now := clock_ms();
        SELECT * INTO d FROM dedupe x WHERE x.channel = p_channel AND x.key = p_key
        ORDER BY x.channel DESC, x.key DESC, x.turn DESC LIMIT 1;
        IF d.turn IS DISTINCT FROM v_turn THEN
            v_turn := COALESCE(d.turn, 0);
            CONTINUE;
        ELSIF d.message_id <> p_id AND (d.until_at IS NULL OR d.until_at > v_now) THEN
            RETURN d.message_id;
        END IF;
        -- No longer kept, or the message's own: take it over. If it has changed since, start again.
        IF v_turn = 0 THEN
            WITH begun AS (
                UPDATE dedupe x SET message_id = NULL, until_at = NULL
                WHERE x.channel = p_channel AND x.key = p_key AND x.turn = 0
                    AND (x.until_at <= v_now OR x.message_id = p_id)
                RETURNING 1)
            INSERT INTO dedupe (channel, key, turn, message_id) SELECT p_channel, p_key, 1, p_id FROM begun;
        ELSE
            UPDATE dedupe x SET turn = x.turn + 1, message_id = p_id, until_at = NULL
            WHERE x.channel = p_channel AND x.key = p_key AND x.turn = v_turn
                AND (x.until_at <= v_now OR x.message_id = p_id);
        END IF;
        IF FOUND THEN
            RETURN NULL;
        END IF;
        v_turn := 0;
    END LOOP;
    PERFORM refuse('40001', format('other transactions kept changing the dedupe key %s', quote_literal(p_key)),
        'Run the transaction again.');
END $$;
