-- The messages have finished: their keys are kept for the queue's time, and then free. In the order of the keys.
CREATE OR REPLACE FUNCTION dedupe_release (p_channels TEXT[], p_keys TEXT[], p_ids BIGINT[], p_keep_ms BIGINT)
RETURNS VOID LANGUAGE plpgsql
SET plan_cache_mode TO force_generic_plan SET enable_seqscan TO off SET enable_bitmapscan TO off SET enable_hashjoin TO off
SET enable_mergejoin TO off SET enable_tidscan TO on SET jit TO off AS $$
DECLARE
    v_tids TID[];
BEGIN
    SELECT array_agg(d.tid) INTO v_tids
    FROM (
        SELECT u.channel, u.key, u.id FROM unnest(p_channels, p_keys, p_ids) u (channel, key, id)
        WHERE u.key IS NOT NULL ORDER BY u.channel COLLATE "C", u.key COLLATE "C") u
    CROSS JOIN LATERAL (
        SELECT d.ctid AS tid FROM dedupe d
        WHERE d.channel = u.channel AND d.key = u.key AND d.message_id = u.id OFFSET 0 FOR UPDATE) d;
    UPDATE dedupe d SET until_at = clock_ms() + p_keep_ms FROM unnest(v_tids) t (tid) WHERE d.ctid = t.tid;
END $$;
