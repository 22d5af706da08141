-- The channel is deleted: its place in the ring goes, unless somebody holds it; maintain takes it away later.
CREATE OR REPLACE FUNCTION ring_drop (p_channel TEXT)
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM ring r WHERE r.channel = p_channel AND r.turn = (
        SELECT x.turn FROM ring x WHERE x.channel = p_channel ORDER BY x.turn DESC LIMIT 1 FOR UPDATE SKIP LOCKED);
END $$;
