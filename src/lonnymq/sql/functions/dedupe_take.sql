-- Take a key for a message. Returns NULL, or the message that holds it already. Waits only for a transaction that takes or frees the
-- same key at this moment. A message that comes back to life takes its own key again.
CREATE OR REPLACE FUNCTION dedupe_take (p_channel TEXT, p_key TEXT, p_id BIGINT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    v_holder BIGINT;
BEGIN
    LOOP
        INSERT INTO dedupe (channel, key, message_id) VALUES (p_channel, p_key, p_id) ON CONFLICT (channel, key) DO NOTHING;
        EXIT WHEN FOUND;
        v_holder := dedupe_holder(p_channel, p_key, p_id);
        IF v_holder IS NOT NULL THEN
            RETURN v_holder;
        END IF;
        -- Kept for long enough, or gone since: take it over, or begin again.
        UPDATE dedupe SET message_id = p_id, until_at = NULL
        WHERE channel = p_channel AND key = p_key AND (until_at <= clock_ms() OR message_id = p_id);
        EXIT WHEN FOUND;
    END LOOP;
    RETURN NULL;
END $$;
