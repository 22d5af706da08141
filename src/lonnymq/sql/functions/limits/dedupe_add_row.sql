-- Part of dedupe_take: take a key over without changing its row, which others have locked. Returns FALSE if the key has
-- changed meanwhile. Waits for transactions that take, free or delete the key.
CREATE OR REPLACE FUNCTION dedupe_add_row (d dedupe, p_id BIGINT, p_unique_for_ms BIGINT, p_check_at BIGINT)
RETURNS BOOLEAN LANGUAGE plpgsql AS $$
BEGIN
    -- While this row exists, maintain does not delete the one with turn 0.
    PERFORM FROM dedupe x
    WHERE x.channel = d.channel AND x.key = d.key AND x.turn = d.turn AND x.message_id = d.message_id FOR KEY SHARE;
    IF NOT FOUND THEN
        RETURN FALSE;
    END IF;
    INSERT INTO dedupe (channel, key, turn, message_id, unique_for_ms, check_at)
    VALUES (d.channel, d.key, d.turn + 1, p_id, p_unique_for_ms, p_check_at) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN FALSE;
    ELSIF EXISTS (SELECT FROM dedupe x WHERE x.channel = d.channel AND x.key = d.key AND x.turn > d.turn + 1) THEN
        DELETE FROM dedupe x WHERE x.channel = d.channel AND x.key = d.key AND x.turn = d.turn + 1;
        RETURN FALSE;                       -- that turn was used before, and deleted
    END IF;
    RETURN TRUE;
END $$;
