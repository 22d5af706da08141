-- The row of a new message: options that are not given get their defaults. p_now is the time of the transaction, and
-- p_clock the time that a delay counts from. This is one SELECT, which PostgreSQL plans into the INSERT that calls it.
CREATE OR REPLACE FUNCTION message_new (
    p new_message, p_id BIGINT, p_xid XID8, p_now BIGINT, p_clock BIGINT, p_is_counted BOOLEAN)
RETURNS SETOF message LANGUAGE sql STABLE ROWS 1 AS $$
SELECT p_id AS id, p_xid AS xid, COALESCE(p.dequeue_at, p_clock + p.delay_ms, p_now) AS dequeue_at, p_now AS created_at,
    0 AS generation, 0 AS attempts, COALESCE(p.cost, 1) AS cost, COALESCE(p.priority, 0)::SMALLINT AS priority,
    p_is_counted AS is_counted, FALSE AS is_cancelled, COALESCE(p.lane, 'default') AS lane, p.channel, p.content,
    p.max_attempts, NULL::BIGINT AS dequeued_at, NULL::BIGINT AS first_dequeued_at, NULL::BIGINT AS rejected_at,
    p.batch_id, NULLIF(p.keep_result_ms, 0) AS keep_result_ms,
    COALESCE(p.unique_for_ms, CASE p.unique_while WHEN 'running' THEN 0 END) AS unique_for_ms, p.dedupe_key,
    NULL AS consumer, NULL AS error, p.headers, NULL::JSONB AS past_errors, NULL::BIGINT[] AS past_runs,
    NULL::BYTEA AS state
$$;
