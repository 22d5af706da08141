-- Finish the messages that have an outcome: dead ones move to the table dead, with the new error and state, if any, and
-- one more attempt; all others are deleted. Writes the history and the results that are kept, starts the time for
-- which dedupe keys are kept, and appends departures for sizes. Counts messages of batches, and creates the callbacks
-- of a batch that is finished. The caller has locked the messages.
CREATE OR REPLACE FUNCTION message_finish (p_endings ending[], p_now BIGINT)
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    q queue;
    v_keys dedupe[];
    v_members batch_ending[];               -- messages of batches
    v_results result[];
    v_unkept BIGINT;                        -- a message that was given a result, and keeps none
BEGIN
    SELECT * INTO q FROM queue;
    IF q.history THEN
        PERFORM history_append(p_endings, p_now);
    END IF;
    WITH gone AS (
        DELETE FROM message m USING unnest(p_endings) e
        WHERE m.id = e.id AND e.outcome IS NOT NULL
        RETURNING m.*, e.outcome, e.dequeued_at AS last_at, e.consumer AS last_consumer, e.error AS last_error,
            e.state AS last_state, e.token, e.result, COALESCE((e.result).keep_ms, m.keep_result_ms) AS keep_ms),
    parked AS (
        INSERT INTO dead (id, dequeue_at, created_at, dequeued_at, first_dequeued_at, dead_at, generation, attempts,
            max_attempts, keep_result_ms, cost, priority, lane, channel, dedupe_key, unique_for_ms, consumer, error,
            headers, past_errors, state, content, batch_id)
        SELECT g.id, g.dequeue_at, g.created_at, g.last_at, COALESCE(g.first_dequeued_at, g.dequeued_at), p_now,
            g.generation, g.attempts + 1, g.max_attempts, g.keep_result_ms, g.cost, g.priority, g.lane, g.channel,
            g.dedupe_key, g.unique_for_ms, g.last_consumer, COALESCE(g.last_error, g.error), g.headers, g.past_errors,
            COALESCE(g.last_state, g.state), g.content, g.batch_id
        FROM gone g WHERE g.outcome = 'dead'),
    marked AS (
        INSERT INTO dead_mark (channel, mark, at)
        SELECT g.channel, hashtextextended(gen_random_uuid()::TEXT, 0) & 9223372036854775807, p_now
        FROM (SELECT DISTINCT g.channel FROM gone g WHERE g.outcome = 'dead') g
        ON CONFLICT DO NOTHING),
    counted AS (
        INSERT INTO departure (channel, n) SELECT g.channel, COUNT(*) FROM gone g WHERE g.is_counted GROUP BY g.channel)
    SELECT array_agg(ROW(g.channel, g.dedupe_key, 0, g.id, NULL, NULL, NULL)::dedupe)
            FILTER (WHERE g.unique_for_ms IS NOT NULL),
        array_agg(ROW(g.id, g.keep_ms, NULL, g.attempts + (g.token IS NOT NULL)::INT, g.outcome, g.channel,
            CASE g.outcome WHEN 'dead' THEN COALESCE(g.last_error, g.error) ELSE g.last_error END,
            (g.result).content_type, CASE WHEN g.outcome = 'completed' THEN (g.result).content END)::result)
            FILTER (WHERE g.keep_ms > 0),
        MIN(g.id) FILTER (WHERE g.keep_ms IS NULL AND (g.result).content IS NOT NULL),
        array_agg(ROW(g.batch_id, g.id, g.outcome)::batch_ending) FILTER (WHERE g.batch_id IS NOT NULL)
    INTO v_keys, v_results, v_unkept, v_members FROM gone g;
    IF v_members IS NOT NULL THEN
        PERFORM batch_count_endings(v_members, p_now);
    END IF;
    IF v_keys IS NOT NULL THEN
        PERFORM dedupe_release(v_keys);
    END IF;
    IF v_unkept IS NOT NULL THEN
        PERFORM refuse('LM010', format('message %s keeps no result', v_unkept),
            'Give p_keep_result_ms to this call, or to the call that creates the message.');
    ELSIF v_results IS NOT NULL THEN
        PERFORM result_write(v_results, p_now);
    END IF;
END $$;
