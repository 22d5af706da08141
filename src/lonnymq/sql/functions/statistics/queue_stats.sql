-- How the queue stands. waiting and served are exact as of the last fold; after a restore, waiting is counted up to 10,000 until
-- rebuild(). due and scheduled divide what waits as a sample of the messages has it; oldest_due_ms is the age of the oldest among
-- the next 1,000 channels in line and the sample. leased and dead are counted up to 10,000. running: how much of a limit over all
-- channels is used. last_served_at is that of the channels in line. The cost does not depend on how much waits.
CREATE OR REPLACE FUNCTION queue_stats ()
RETURNS TABLE (
    waiting BIGINT, due BIGINT, scheduled BIGINT, leased BIGINT, dead BIGINT, oldest_due_ms BIGINT, served BIGINT, last_served_at BIGINT,
    running INT, max_concurrency INT, paused BOOLEAN, blocked_by TEXT)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path FROM CURRENT SET enable_seqscan TO off SET enable_bitmapscan TO off SET jit TO off AS $$
#variable_conflict use_column
DECLARE
    v_now BIGINT := clock_ms();
    q queue;
    t tick;
    s RECORD;
BEGIN
    PERFORM free_check('queue_stats');
    SELECT * INTO q FROM queue;
    SELECT * INTO t FROM tick ORDER BY id DESC LIMIT 1;
    SELECT COALESCE(SUM(x.waiting), 0) AS waiting, COALESCE(SUM(x.scheduled), 0) AS scheduled, MIN(x.oldest_at) AS oldest_at
    INTO s FROM message_sample() x;
    waiting := COALESCE(t.waiting, (SELECT COUNT(*) FROM (SELECT FROM message m WHERE NOT m.leased LIMIT 10000) x));
    scheduled := CASE WHEN s.waiting > 0 THEN round(waiting * (s.scheduled::NUMERIC / s.waiting)) ELSE 0 END;
    due := waiting - scheduled;
    leased := (
        SELECT COUNT(*) FROM (
            SELECT FROM message m WHERE m.leased AND (m.lease_end_at, m.id) > (COALESCE(t.swept_at, 0), COALESCE(t.swept_id, 0))
            ORDER BY m.lease_end_at, m.id LIMIT 10000) x);
    dead := (SELECT COUNT(*) FROM (SELECT FROM dead d LIMIT 10000) x);
    SELECT v_now - LEAST(s.oldest_at, MIN(x.head_at) FILTER (WHERE x.head_at BETWEEN 1 AND v_now)), MAX(x.released_at)
    INTO oldest_due_ms, last_served_at
    FROM (
        SELECT r.head_at, r.released_at FROM ring r
        WHERE r.due_at IS NOT NULL AND (r.due_at, r.turn) >= (t.floor_at, t.floor_turn) ORDER BY r.due_at, r.turn LIMIT 1000) x;
    served := COALESCE(t.served, 0);
    running := CASE WHEN q.max_concurrency IS NOT NULL THEN queue_slot_busy() END;
    max_concurrency := q.max_concurrency;
    paused := q.paused;
    blocked_by := CASE WHEN waiting = 0 THEN 'empty' WHEN due = 0 THEN 'scheduled' WHEN q.paused THEN 'paused'
        WHEN running >= q.max_concurrency THEN 'queue limit' END;
    RETURN NEXT;
END $$;
