-- Take a key for a message. Returns NULL, or the message that holds it already. Waits only for a transaction that takes or frees the
-- same key at this moment. A message that comes back to life takes its own key again. Each failed try means that somebody else
-- committed a change of the key in between; after 100 of them it gives up.
CREATE OR REPLACE FUNCTION dedupe_take (p_channel TEXT, p_key TEXT, p_id BIGINT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    v_now BIGINT;                           -- read once per try: a clock that steps must not make two answers of one
    v_holder BIGINT;
BEGIN
    FOR i IN 1 .. 100 LOOP
        INSERT INTO dedupe (channel, key, message_id) VALUES (p_channel, p_key, p_id) ON CONFLICT (channel, key) DO NOTHING;
        IF FOUND THEN
            RETURN NULL;
        END IF;
        v_now := clock_ms();
        v_holder := dedupe_holder(p_channel, p_key, p_id, v_now);
        IF v_holder IS NOT NULL THEN
            RETURN v_holder;
        END IF;
        -- Kept for long enough, or gone since: take it over, or begin again.
        UPDATE dedupe SET message_id = p_id, until_at = NULL
        WHERE channel = p_channel AND key = p_key AND (until_at <= v_now OR message_id = p_id);
        IF FOUND THEN
            RETURN NULL;
        END IF;
    END LOOP;
    PERFORM refuse('40001', format('others changed the dedupe key %s at every try', quote_literal(p_key)), 'Run the transaction again.');
END $$;
