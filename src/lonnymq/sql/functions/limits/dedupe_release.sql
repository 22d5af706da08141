-- The messages are finished: their keys are kept for their unique_for_ms more, and are free then. Locks the keys in
-- their order. Only for messages with a unique_for_ms: the keys of others are free as soon as they do not wait.
CREATE OR REPLACE FUNCTION dedupe_release (p_keys dedupe[])
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_tids TID[];
    v_now BIGINT;
BEGIN
    SELECT array_agg(d.tid) INTO v_tids
    FROM (SELECT * FROM unnest(p_keys) k ORDER BY k.channel, k.key) k
    CROSS JOIN LATERAL (
        SELECT d.ctid AS tid FROM dedupe d
        WHERE d.channel = k.channel AND d.key = k.key AND d.message_id = k.message_id
        ORDER BY d.channel DESC, d.key DESC, d.turn DESC LIMIT 1 FOR UPDATE) d;
    v_now := clock_ms();
    UPDATE dedupe d SET until_at = v_now + d.unique_for_ms, check_at = v_now + d.unique_for_ms
    FROM unnest(v_tids) t (tid) WHERE d.ctid = t.tid;
END $$;
