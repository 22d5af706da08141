-- The channel is deleted: its place in the ring goes, unless somebody holds it, or a message came since; maintain takes it away later.
CREATE OR REPLACE FUNCTION ring_drop (p_channel TEXT)
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_turn BIGINT;
BEGIN
    SELECT r.turn INTO v_turn FROM ring r WHERE r.channel = p_channel ORDER BY r.turn DESC LIMIT 1 FOR UPDATE SKIP LOCKED;
    -- Looked for under the lock, and with a snapshot that is younger: who was folded before has its place in this row. Who commits
    -- after that is folded after the row is gone, and placed anew.
    IF current_setting('transaction_isolation') = 'read committed'
        AND NOT EXISTS (SELECT FROM message m WHERE NOT m.leased AND m.channel = p_channel)
        AND NOT EXISTS (SELECT FROM message m WHERE m.leased AND m.channel = p_channel)
    THEN
        DELETE FROM ring r WHERE r.channel = p_channel AND r.turn = v_turn;
    END IF;
END $$;
