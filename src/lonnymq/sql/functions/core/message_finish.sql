-- Finish the messages that have an outcome: dead ones move to the table dead, with the new error and state, if any, and
-- one more attempt; all others are deleted. Writes the history, starts the time that dedupe keys are kept, and appends
-- departures for sizes. The caller has locked the messages.
CREATE OR REPLACE FUNCTION message_finish (p_endings ending[], p_now BIGINT)
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    q queue;
    v_keys dedupe[];
BEGIN
    SELECT * INTO q FROM queue;
    IF q.history THEN
        PERFORM history_append(p_endings, p_now);
    END IF;
    WITH gone AS (
        DELETE FROM message m USING unnest(p_endings) e
        WHERE m.id = e.id AND e.outcome IS NOT NULL
        RETURNING m.*, e.outcome, e.dequeued_at AS last_at, e.consumer AS last_consumer, e.error AS last_error,
            e.state AS last_state),
    parked AS (
        INSERT INTO dead (id, dequeue_at, created_at, dequeued_at, first_dequeued_at, dead_at, generation, attempts,
            max_attempts, cost, priority, lane, channel, dedupe_key, consumer, error, headers, past_errors, state,
            content)
        SELECT g.id, g.dequeue_at, g.created_at, g.last_at, COALESCE(g.first_dequeued_at, g.dequeued_at), p_now,
            g.generation, g.attempts + 1, g.max_attempts, g.cost, g.priority, g.lane, g.channel, g.dedupe_key,
            g.last_consumer, COALESCE(g.last_error, g.error), g.headers, g.past_errors, COALESCE(g.last_state, g.state),
            g.content
        FROM gone g WHERE g.outcome = 'dead'),
    marked AS (
        INSERT INTO dead_mark (channel, mark, at)
        SELECT g.channel, hashtextextended(gen_random_uuid()::TEXT, 0) & 9223372036854775807, p_now
        FROM (SELECT DISTINCT g.channel FROM gone g WHERE g.outcome = 'dead') g
        ON CONFLICT DO NOTHING),
    counted AS (
        INSERT INTO departure (channel, n) SELECT g.channel, COUNT(*) FROM gone g WHERE g.is_counted GROUP BY g.channel)
    SELECT array_agg(ROW(g.channel, g.dedupe_key, 0, g.id, NULL)::dedupe) INTO v_keys
    FROM gone g WHERE g.dedupe_key IS NOT NULL;
    IF v_keys IS NOT NULL THEN
        PERFORM dedupe_release(v_keys, q.dedupe_keep_ms);
    END IF;
END $$;
