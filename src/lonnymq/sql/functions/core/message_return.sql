-- Return the messages without an outcome to the dispatcher. A higher generation makes their lease void, and a notice
-- has them placed again. Without p_tell there is no notice: the dispatcher itself places them. While the queue keeps a
-- history, the run that has ended is added to past_runs, of which the first one and the newest 99 are kept. The caller
-- has locked the messages. Returns their new stubs.
CREATE OR REPLACE FUNCTION message_return (p_endings ending[], p_tell BOOLEAN DEFAULT TRUE)
RETURNS stub[] LANGUAGE plpgsql AS $$
DECLARE
    v_has_history BOOLEAN := (SELECT q.history FROM queue q);
    v_now BIGINT := clock_ms();
    v_back stub[];
    v_n INT;                                -- how many were leased, and wait now
BEGIN
    WITH back AS (
        UPDATE message m
        SET xid = pg_current_xact_id(), generation = m.generation + 1,
            dequeue_at = COALESCE(e.at, m.dequeue_at), state = COALESCE(e.state, m.state),
            error = COALESCE(e.error, m.error),
            attempts = m.attempts + CASE WHEN e.error IS NULL THEN 0 ELSE 1 END,
            first_dequeued_at = CASE WHEN e.token IS NULL THEN m.first_dequeued_at
                ELSE COALESCE(m.first_dequeued_at, m.dequeued_at) END,
            dequeued_at = COALESCE(e.dequeued_at, m.dequeued_at),
            consumer = CASE WHEN e.token IS NULL THEN m.consumer ELSE e.consumer END,
            rejected_at = CASE WHEN e.error IS NULL THEN m.rejected_at END,
            past_runs = CASE WHEN e.token IS NULL OR NOT v_has_history THEN m.past_runs
                ELSE CASE WHEN cardinality(m.past_runs) >= 300 THEN m.past_runs[:3] || m.past_runs[7:]
                    ELSE m.past_runs END || ARRAY[m.dequeue_at, e.dequeued_at, v_now] END
        FROM unnest(p_endings) e
        WHERE m.id = e.id AND e.outcome IS NULL
        RETURNING m.id, m.generation, e.token)
    SELECT array_agg(ROW(b.id, b.generation)::stub), COUNT(b.token) INTO v_back, v_n FROM back b;
    IF p_tell AND v_back IS NOT NULL THEN
        INSERT INTO notice (n, back) VALUES (v_n, v_back);
    END IF;
    RETURN v_back;
END $$;
