-- The channel is deleted: its place in the ring goes, unless somebody holds it, or has leased a message of it since; maintain takes it away later.
CREATE OR REPLACE FUNCTION ring_drop (p_channel TEXT)
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_turn BIGINT;
BEGIN
    SELECT r.turn INTO v_turn FROM ring r WHERE r.channel = p_channel ORDER BY r.turn DESC LIMIT 1 FOR UPDATE SKIP LOCKED;
    -- Looked for under the lock: a channel with leases must have its row.
    IF NOT EXISTS (SELECT FROM message m WHERE m.leased AND m.channel = p_channel) THEN
        DELETE FROM ring r WHERE r.channel = p_channel AND r.turn = v_turn;
    END IF;
END $$;
