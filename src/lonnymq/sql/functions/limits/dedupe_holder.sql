-- The message, other than p_id, that holds a key at p_now; NULL: none does.
CREATE OR REPLACE FUNCTION dedupe_holder (p_channel TEXT, p_key TEXT, p_id BIGINT, p_now BIGINT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
BEGIN
    RETURN (
        SELECT d.message_id
        FROM (
            SELECT * FROM dedupe d WHERE d.channel = p_channel AND d.key = p_key
            ORDER BY d.channel DESC, d.key DESC, d.turn DESC LIMIT 1) d
        WHERE d.message_id <> p_id AND (d.until_at IS NULL OR d.until_at > p_now));
END $$;
