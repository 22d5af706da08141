-- Messages end without being completed: those whose outcome is 'dead' are parked, those 'cancelled' go; elements without an outcome stay.
-- The caller holds them, and knows them by their address. A dead one takes the error and the state given, if any, and one attempt more.
-- Writes the history, lets dedupe keys run out and says which sizes fell. Slots are the caller's to free.
CREATE OR REPLACE FUNCTION message_end (p_tids TID[], p_outcomes TEXT[], p_errors TEXT[], p_states BYTEA[], p_now BIGINT)
RETURNS VOID LANGUAGE plpgsql
SET plan_cache_mode TO force_generic_plan SET enable_seqscan TO off SET enable_bitmapscan TO off SET enable_hashjoin TO off
SET enable_mergejoin TO off SET enable_tidscan TO on SET jit TO off AS $$
DECLARE
    v_ids BIGINT[];
    v_channels TEXT[];
    v_counted BOOLEAN[];
    v_keys TEXT[];
BEGIN
    IF (SELECT q.history FROM queue q) THEN
        PERFORM history_append(p_tids, p_outcomes, p_errors, p_now);
    END IF;
    WITH gone AS (
        DELETE FROM message m USING unnest(p_tids, p_outcomes, p_errors, p_states) u (tid, outcome, new_error, new_state)
        WHERE m.ctid = u.tid AND u.outcome IS NOT NULL
        RETURNING m.*, u.outcome, u.new_error, u.new_state),
    parked AS (
        INSERT INTO dead (id, dequeue_at, created_at, dead_at, attempts, max_attempts, channel, consumer, error, headers, state, content,
            dequeued_at, first_dequeued_at, dedupe_key, past_errors)
        SELECT g.id, g.dequeue_at, g.created_at, p_now, g.attempts + 1, g.max_attempts, g.channel, g.consumer, COALESCE(g.new_error, g.error),
            g.headers, COALESCE(g.new_state, g.state), g.content, g.dequeued_at, g.first_dequeued_at, g.dedupe_key, g.past_errors
        FROM gone g WHERE g.outcome = 'dead'),
    marked AS (
        INSERT INTO dead_mark (channel, mark, at)
        SELECT g.channel, hashtextextended(gen_random_uuid()::TEXT, 0) & 9223372036854775807, p_now
        FROM (SELECT DISTINCT g.channel FROM gone g WHERE g.outcome = 'dead') g
        ON CONFLICT DO NOTHING)
    SELECT array_agg(g.id), array_agg(g.channel), array_agg(g.is_counted), array_agg(g.dedupe_key) INTO v_ids, v_channels, v_counted, v_keys
    FROM gone g;
    PERFORM message_left(v_channels, NULL, v_counted, v_keys, v_ids);
END $$;
