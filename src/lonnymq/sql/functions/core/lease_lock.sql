-- Which of the given pairs (id, token) the caller holds, and what becomes of these messages: 'cancelled' where that
-- was asked for, else p_outcome; where that is NULL, 'dead' after an error that used up the last attempt, else NULL.
-- One row for the first mention of each. Locks the messages in the order of their ids, so that two calls never wait
-- for each other in a circle.
CREATE OR REPLACE FUNCTION lease_lock (
    p_ids BIGINT[], p_tokens UUID[], p_outcome TEXT, p_ats BIGINT[] DEFAULT NULL, p_states BYTEA[] DEFAULT NULL,
    p_errors TEXT[] DEFAULT NULL)
RETURNS SETOF ending LANGUAGE plpgsql AS $$
DECLARE
    v_max INT := (SELECT q.max_attempts FROM queue q);
BEGIN
    RETURN QUERY
    SELECT f.ord, f.id, f.generation, f.token, f.last_id, f.dequeued_at, f.consumer, f.is_limited, m.channel::TEXT,
        CASE WHEN m.is_cancelled THEN 'cancelled' WHEN p_outcome IS NOT NULL THEN p_outcome
             WHEN f.error IS NOT NULL AND m.attempts + 1 >= COALESCE(m.max_attempts, v_max) THEN 'dead' END,
        f.at, f.state, left(f.error, 16384)
    FROM lease_find(p_ids, p_tokens, p_ats, p_states, p_errors) f
    CROSS JOIN LATERAL (
        SELECT * FROM message m WHERE m.id = f.id AND m.generation = f.generation OFFSET 0 FOR UPDATE) m;
END $$;
