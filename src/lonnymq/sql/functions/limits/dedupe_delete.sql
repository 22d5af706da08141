-- Delete the keys in these rows, which the caller has locked, if no message holds them any more: those that were kept
-- until p_now at most (NULL: however long), and those that are held while a message waits, if it is finished. The
-- statements are younger than the locks, so they see whether the message exists that has the key now. The row with turn
-- 0 of a key goes last, because it makes the key unique. Returns how many rows were deleted.
CREATE OR REPLACE FUNCTION dedupe_delete (p_tids TID[], p_now BIGINT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    v_gone dedupe[];
    v_count BIGINT;
BEGIN
    v_gone := ARRAY(
        SELECT d FROM dedupe d
        WHERE d.ctid = ANY (p_tids) AND CASE WHEN d.unique_for_ms IS NULL
            THEN NOT EXISTS (SELECT FROM message m WHERE m.id = d.message_id)
            ELSE d.until_at <= COALESCE(p_now, d.until_at) END);
    DELETE FROM dedupe d USING unnest(v_gone) g
    WHERE d.channel = g.channel AND d.key = g.key AND d.turn = g.turn AND g.turn > 0;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    DELETE FROM dedupe d USING unnest(v_gone) g
    WHERE d.channel = g.channel AND d.key = g.key AND d.turn = 0 AND (g.turn = 0 OR d.message_id IS NULL)
        AND NOT EXISTS (SELECT FROM dedupe x WHERE x.channel = g.channel AND x.key = g.key AND x.turn > 0);
    RETURN v_count + (SELECT COUNT(*) FROM unnest(v_gone) g WHERE g.turn = 0);
END $$;
