-- Make dead messages live again, due at p_dequeue_at or now: with new attempts and the same id, content and state. With
-- p_spread_ms, they are due evenly over that time from then on, in the order of their ids. The errors they died of are
-- kept (past_errors, the last ten); a kept result is deleted. They count as unfinished in their batches again, which do
-- not create their callbacks a second time. Locks the dead messages in the order of their ids.
-- Returns one row (id, result) per element, in the order given: 'retried'; 'duplicate' (another message has its dedupe
-- key) or 'full' (its channel is), in which case it stays dead; or 'not_found'.
CREATE OR REPLACE FUNCTION dead_retry (p_ids BIGINT[], p_dequeue_at BIGINT DEFAULT NULL, p_spread_ms BIGINT DEFAULT 0)
RETURNS TABLE (id BIGINT, result TEXT) LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    v_at BIGINT := COALESCE(p_dequeue_at, clock_ms());
    v_ids BIGINT[];
    v_channels TEXT[];
    v_keys TEXT[];
    v_unique_fors BIGINT[];
    v_results TEXT[];
    v_counted BOOLEAN[];
    v_batches BIGINT[];                     -- of the retried messages
BEGIN
    PERFORM unbound_check('dead_retry');
    PERFORM array_lengths_check(cardinality(p_ids), NULL);
    PERFORM time_check(p_dequeue_at);
    PERFORM spread_check(p_spread_ms);
    SELECT array_agg(d.id), array_agg(d.channel), array_agg(d.dedupe_key), array_agg(d.unique_for_ms)
    INTO v_ids, v_channels, v_keys, v_unique_fors
    FROM (SELECT DISTINCT g AS id FROM unnest(p_ids) g ORDER BY 1) u
    CROSS JOIN LATERAL (SELECT * FROM dead d WHERE d.id = u.id OFFSET 0 FOR UPDATE) d;
    IF v_ids IS NOT NULL THEN
        SELECT a.results, a.are_counted INTO v_results, v_counted
        FROM message_admit(v_channels, v_keys, v_ids, v_unique_fors) a;
        WITH back AS (
            DELETE FROM dead d USING unnest(v_ids, v_results, v_counted) WITH ORDINALITY u (id, result,
                is_counted, ord)
            WHERE d.id = u.id AND u.result = 'created'
            RETURNING d.*, u.is_counted, u.ord),
        made AS (
            INSERT INTO message (id, dequeue_at, created_at, dequeued_at, first_dequeued_at, generation, max_attempts,
                keep_result_ms, cost, priority, is_counted, lane, channel, dedupe_key, unique_for_ms, consumer, error,
                headers, past_errors, state, content, batch_id)
            OVERRIDING SYSTEM VALUE
            SELECT b.id, v_at + (b.ord - 1) * p_spread_ms / cardinality(v_ids), b.created_at, b.dequeued_at,
                b.first_dequeued_at, b.generation + 1, b.max_attempts, b.keep_result_ms, b.cost, b.priority,
                b.is_counted, b.lane, b.channel, b.dedupe_key, b.unique_for_ms, b.consumer, b.error, b.headers,
                jsonb_path_query_array(COALESCE(b.past_errors, '[]') || jsonb_build_array(jsonb_build_object(
                    'at', b.dead_at, 'attempts', b.attempts, 'error', b.error)), '$[last - 9 to last]'),
                b.state, b.content, b.batch_id
            FROM back b
            RETURNING id, generation),
        no_result AS (DELETE FROM result r WHERE r.id = ANY (ARRAY(SELECT b.id FROM back b))),
        told AS (
            INSERT INTO notice (n, back)
            SELECT COUNT(*), array_agg(ROW(m.id, m.generation)::stub) FROM made m HAVING COUNT(*) > 0)
        SELECT array_agg(b.batch_id) FILTER (WHERE b.batch_id IS NOT NULL) INTO v_batches FROM back b;
        IF v_batches IS NOT NULL THEN
            PERFORM batch_reopen(v_batches, clock_ms());
        END IF;
        PERFORM sleep_notify();
    END IF;
    RETURN QUERY
    SELECT x.id, CASE WHEN x.result IS NULL OR x.nth > 1 AND x.result = 'created' THEN 'not_found'
        WHEN x.result = 'created' THEN 'retried' ELSE x.result END
    FROM (
        SELECT u.id, u.ord, ROW_NUMBER() OVER (PARTITION BY u.id ORDER BY u.ord) AS nth,
            v_results[array_position(v_ids, u.id)] AS result
        FROM unnest(p_ids) WITH ORDINALITY u (id, ord)) x
    ORDER BY x.ord;
END $$;
