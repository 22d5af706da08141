-- The messages are finished: their keys are kept for p_keep_ms more, and are free then. Locks the keys in their order.
CREATE OR REPLACE FUNCTION dedupe_release (p_keys dedupe[], p_keep_ms BIGINT)
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_tids TID[];
BEGIN
    SELECT array_agg(d.tid) INTO v_tids
    FROM (SELECT * FROM unnest(p_keys) k ORDER BY k.channel, k.key) k
    CROSS JOIN LATERAL (
        SELECT d.ctid AS tid FROM dedupe d
        WHERE d.channel = k.channel AND d.key = k.key AND d.message_id = k.message_id
        ORDER BY d.channel DESC, d.key DESC, d.turn DESC LIMIT 1 FOR UPDATE) d;
    UPDATE dedupe d SET until_at = clock_ms() + p_keep_ms FROM unnest(v_tids) t (tid) WHERE d.ctid = t.tid;
END $$;
