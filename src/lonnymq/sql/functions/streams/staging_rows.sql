-- The messages of a chunk, in their order. Refuses arrays that differ in length. This is one SELECT, which PostgreSQL
-- plans into the statement that calls it. Elements that are unnested in a SELECT list come in their order, without a
-- copy.
CREATE OR REPLACE FUNCTION staging_rows (p staging_chunk)
RETURNS TABLE (ord BIGINT, message new_message) LANGUAGE sql STABLE AS $$
SELECT u.ord, ROW(u.channel, u.content, u.dequeue_at, u.headers, u.max_attempts, u.dedupe_key, NULL, u.priority, u.cost,
    u.lane, u.unique_while, u.unique_for_ms, u.keep_result_ms, u.batch_id)::new_message
FROM (
    SELECT generate_series(p.ord, p.ord - 1 + array_lengths_check(cardinality(p.channel), cardinality(p.content),
            cardinality(p.dequeue_at), cardinality(p.headers), cardinality(p.max_attempts), cardinality(p.dedupe_key),
            cardinality(p.priority), cardinality(p.cost), cardinality(p.lane), cardinality(p.unique_while),
            cardinality(p.unique_for_ms), cardinality(p.keep_result_ms), cardinality(p.batch_id))) AS ord,
        unnest(p.channel) AS channel, unnest(p.content) AS content, unnest(p.dequeue_at) AS dequeue_at,
        unnest(p.headers)::JSONB AS headers, unnest(p.max_attempts) AS max_attempts,
        unnest(p.dedupe_key) AS dedupe_key, unnest(p.priority) AS priority, unnest(p.cost) AS cost,
        unnest(p.lane) AS lane, unnest(p.unique_while) AS unique_while, unnest(p.unique_for_ms) AS unique_for_ms,
        unnest(p.keep_result_ms) AS keep_result_ms, unnest(p.batch_id) AS batch_id) u
$$;
