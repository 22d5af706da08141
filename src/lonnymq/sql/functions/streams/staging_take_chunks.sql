-- Delete the chunks that the caller's login role has staged under some batches, and return their messages in any order.
CREATE OR REPLACE FUNCTION staging_take_chunks (p_batches UUID[])
RETURNS TABLE (batch UUID, ord BIGINT, message new_message) LANGUAGE sql AS $$
WITH gone AS (
    DELETE FROM staging_chunk g WHERE g.batch = ANY (p_batches) AND g.staged_by = quote_ident(session_user)::REGROLE
    RETURNING g.*, array_lengths_check(cardinality(g.channel), cardinality(g.content), cardinality(g.dequeue_at),
        cardinality(g.headers), cardinality(g.max_attempts), cardinality(g.dedupe_key), cardinality(g.priority),
        cardinality(g.cost), cardinality(g.lane), cardinality(g.unique_while), cardinality(g.unique_for_ms),
        cardinality(g.keep_result_ms), cardinality(g.batch_id)))
SELECT x.batch, m.ord, ROW(m.channel, m.content, m.dequeue_at, m.headers, m.max_attempts, m.dedupe_key, NULL,
    m.priority, m.cost, m.lane, m.unique_while, m.unique_for_ms, m.keep_result_ms, m.batch_id)::new_message
FROM gone x
CROSS JOIN LATERAL staging_rows(x.ord, x.channel, x.content, x.dequeue_at, x.headers, x.max_attempts, x.dedupe_key,
    x.priority, x.cost, x.lane, x.unique_while, x.unique_for_ms, x.keep_result_ms, x.batch_id) m
$$;
