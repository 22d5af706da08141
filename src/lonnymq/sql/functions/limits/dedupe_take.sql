-- Take a key for a message. Returns NULL, or the id of the message that already holds the key. A dead message that is
-- retried takes its own key again. Waits only for a transaction that takes or frees the same key at this moment. Each
-- failed try means that another transaction committed a change of the key meanwhile; after 100 of them it gives up.
-- A key may still be locked by creates that count on a message which no longer holds it: it was cancelled, or its turn
-- has come and it waits for them. Then the key gets another row with a higher turn, and that row stays.
CREATE OR REPLACE FUNCTION dedupe_take (p_channel TEXT, p_key TEXT, p_id BIGINT, p_unique_for_ms BIGINT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    d dedupe;
    v_turn BIGINT := 0;
    v_now BIGINT;                           -- read once per try, so that all uses see the same time
    v_check_at BIGINT;
BEGIN
    FOR i IN 1 .. 200 LOOP
        v_check_at := CASE WHEN p_unique_for_ms IS NULL THEN clock_ms() + 600000 END;
        -- Turn 0 is free only if the key is. Another turn is inserted only to wait for whoever changes that row.
        INSERT INTO dedupe (channel, key, turn, message_id, unique_for_ms, check_at)
        VALUES (p_channel, p_key, v_turn, p_id, p_unique_for_ms, v_check_at) ON CONFLICT DO NOTHING;
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
        ELSIF d.message_id <> p_id AND dedupe_holds(d, v_now) THEN
            RETURN d.message_id;
        END IF;
        -- No longer held, or the message's own: take it over. If it has changed since, or dedupe_add_row has used the
        -- next turn, start again.
        IF d.unique_for_ms IS NULL
            AND current_setting('transaction_isolation') NOT IN ('repeatable read', 'serializable')
        THEN
            PERFORM FROM dedupe x WHERE x.channel = p_channel AND x.key = p_key AND x.turn = v_turn
            FOR UPDATE SKIP LOCKED;
            IF NOT FOUND THEN
                IF dedupe_add_row(d, p_id, p_unique_for_ms, v_check_at) THEN
                    RETURN NULL;
                END IF;
                v_turn := 0;
                CONTINUE;
            END IF;
        END IF;
        IF v_turn = 0 THEN
            WITH begun AS (
                UPDATE dedupe x SET message_id = NULL, unique_for_ms = NULL, until_at = NULL, check_at = NULL
                WHERE x.channel = p_channel AND x.key = p_key AND x.turn = 0
                    AND x.message_id = d.message_id AND x.until_at IS NOT DISTINCT FROM d.until_at
                RETURNING 1)
            INSERT INTO dedupe (channel, key, turn, message_id, unique_for_ms, check_at)
            SELECT p_channel, p_key, 1, p_id, p_unique_for_ms, v_check_at FROM begun ON CONFLICT DO NOTHING;
        ELSE
            WITH gone AS (
                DELETE FROM dedupe x
                WHERE x.channel = p_channel AND x.key = p_key AND x.turn = v_turn
                    AND x.message_id = d.message_id AND x.until_at IS NOT DISTINCT FROM d.until_at
                RETURNING 1)
            INSERT INTO dedupe (channel, key, turn, message_id, unique_for_ms, check_at)
            SELECT p_channel, p_key, v_turn + 1, p_id, p_unique_for_ms, v_check_at FROM gone ON CONFLICT DO NOTHING;
        END IF;
        IF FOUND THEN
            RETURN NULL;
        END IF;
        v_turn := 0;
    END LOOP;
    PERFORM refuse('40001', format('other transactions kept changing the dedupe key %s', quote_literal(p_key)),
        'Run the transaction again.');
END $$;
