-- The rows of a chunk, in their order. This is one SELECT, which PostgreSQL plans into the statement that calls it.
-- Elements that are unnested in a SELECT list come in their order, without a copy.
CREATE OR REPLACE FUNCTION staging_rows (p_ord BIGINT, p_channel TEXT[], p_content BYTEA[], p_dequeue_at BIGINT[],
    p_headers TEXT[], p_max_attempts INT[], p_dedupe_key TEXT[], p_priority INT[], p_cost INT[], p_lane TEXT[],
    p_unique_while TEXT[], p_unique_for_ms BIGINT[], p_keep_result_ms BIGINT[], p_batch_id BIGINT[])
RETURNS TABLE (ord BIGINT, channel TEXT, content BYTEA, dequeue_at BIGINT, headers JSONB, max_attempts INT,
    dedupe_key TEXT, priority INT, cost INT, lane TEXT, unique_while TEXT, unique_for_ms BIGINT, keep_result_ms BIGINT,
    batch_id BIGINT)
LANGUAGE sql STABLE AS $$
SELECT generate_series(p_ord, p_ord + cardinality(p_channel) - 1), unnest(p_channel), unnest(p_content),
    unnest(p_dequeue_at), unnest(p_headers)::JSONB, unnest(p_max_attempts), unnest(p_dedupe_key), unnest(p_priority),
    unnest(p_cost), unnest(p_lane), unnest(p_unique_while), unnest(p_unique_for_ms), unnest(p_keep_result_ms),
    unnest(p_batch_id)
$$;
