-- The history's rows of messages that are about to go. The caller holds them, and knows them by their address; elements without an outcome stay.
CREATE OR REPLACE FUNCTION history_append (p_tids TID[], p_outcomes TEXT[], p_errors TEXT[], p_now BIGINT)
RETURNS VOID LANGUAGE plpgsql
SET plan_cache_mode TO force_generic_plan SET enable_seqscan TO off SET enable_bitmapscan TO off SET enable_hashjoin TO off
SET enable_mergejoin TO off SET enable_tidscan TO on SET jit TO off AS $$
DECLARE
    v_content BOOLEAN := (SELECT q.history_content FROM queue q);
BEGIN
    INSERT INTO finished (id, created_at, dequeue_at, first_dequeued_at, dequeued_at, finished_at, attempts, content_bytes, outcome,
        channel, consumer, error, dedupe_key, headers, content)
    SELECT m.id, m.created_at, m.dequeue_at, COALESCE(m.first_dequeued_at, m.dequeued_at), m.dequeued_at, p_now,
        m.attempts + CASE WHEN m.leased THEN 1 ELSE 0 END, octet_length(m.content), u.outcome,
        m.channel, m.consumer, COALESCE(u.error, m.error), m.dedupe_key, m.headers, CASE WHEN v_content THEN m.content END
    FROM unnest(p_tids, p_outcomes, p_errors) u (tid, outcome, error)
    CROSS JOIN LATERAL (SELECT * FROM message m WHERE m.ctid = u.tid OFFSET 0) m
    WHERE u.outcome IS NOT NULL;
END $$;
