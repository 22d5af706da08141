-- Lock those of the given pairs (id, token) that the caller holds, and decide what becomes of them: 'cancelled' if
-- somebody cancelled the message, otherwise p_outcome; if p_outcome is NULL, 'dead' where p_are_final is TRUE or after
-- an error in the last attempt, otherwise NULL (the message is returned). Used by all calls that take a token, except
-- for the fast paths of message_complete and message_complete_many, and for extending without a state, which locks no
-- message.
-- Returns one row for the first mention of each pair. Locks the messages in the order of their ids, in one statement,
-- so that two calls never deadlock.
CREATE OR REPLACE FUNCTION lease_lock (
    p_ids BIGINT[], p_tokens UUID[], p_outcome TEXT, p_ats BIGINT[] DEFAULT NULL, p_states BYTEA[] DEFAULT NULL,
    p_errors TEXT[] DEFAULT NULL, p_are_final BOOLEAN[] DEFAULT NULL, p_results given_result[] DEFAULT NULL)
RETURNS SETOF ending LANGUAGE plpgsql AS $$
DECLARE
    v_max INT := (SELECT q.max_attempts FROM queue q);
BEGIN
    RETURN QUERY
    SELECT f.ord, f.id, f.generation, f.token, f.last_id, f.dequeued_at, f.consumer, f.is_limited, m.channel::TEXT,
        CASE WHEN m.is_cancelled THEN 'cancelled' WHEN p_outcome IS NOT NULL THEN p_outcome
             WHEN p_are_final[f.ord] THEN 'dead'
             WHEN f.error IS NOT NULL AND m.attempts + 1 >= COALESCE(m.max_attempts, v_max) THEN 'dead' END,
        f.at, f.state, left(f.error, 16384), f.result
    FROM lease_find(p_ids, p_tokens, p_ats, p_states, p_errors, p_results) f
    CROSS JOIN LATERAL (
        SELECT * FROM message m WHERE m.id = f.id AND m.generation = f.generation OFFSET 0 FOR UPDATE) m;
END $$;
