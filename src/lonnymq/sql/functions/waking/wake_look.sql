-- For a consumer that sleeps: whether there is something to fold or to dequeue; where there is not, when to look again. One call that reads a
-- few index entries, instead of a dequeue, a fold and a dequeue in vain. Locks and writes nothing.
-- Returns is_due: fold and dequeue now; again_at: else sleep until then or a notification, at most a second; is_awaited: p_generation, of a
-- wake_await that was sure, still stands, and whoever appends notifies; and now_at, the time that all this is true of.
CREATE OR REPLACE FUNCTION wake_look (p_generation BIGINT DEFAULT NULL)
RETURNS TABLE (is_due BOOLEAN, again_at BIGINT, is_awaited BOOLEAN, now_at BIGINT) LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET plan_cache_mode TO force_generic_plan SET enable_seqscan TO off SET enable_bitmapscan TO off
SET jit TO off AS $$
DECLARE
    t tick;
BEGIN
    PERFORM isolation_check('wake_look');
    PERFORM free_check('wake_look');
    now_at := clock_ms();
    SELECT * INTO t FROM tick ORDER BY id DESC LIMIT 1;
    again_at := dequeue_again_at(now_at);
    is_due := again_at <= now_at OR now_at < t.at - 1000 OR t.review_at IS NOT NULL OR t.resume_channel IS NOT NULL
        OR EXISTS (SELECT FROM ring r WHERE r.due_at IS NOT NULL AND (r.due_at, r.turn) >= (t.floor_at, t.floor_turn) AND r.due_at <= now_at)
        OR EXISTS (SELECT FROM postponed p WHERE p.due_at > t.postponed_to AND p.due_at <= now_at)
        OR lease_is_due(t, now_at, 10000);      -- who sleeps should not fold each second for leases that have all ended
    is_awaited := COALESCE((
        SELECT s.is_asleep AND s.id = p_generation AND (SELECT q.notify FROM queue q) FROM sleep s ORDER BY s.id DESC LIMIT 1), FALSE);
    RETURN NEXT;
END $$;
