-- Put a message back, if the caller still holds it: at p_dequeue_at, after p_delay_ms, or where it stood. A state and
-- an error replace the old ones when given. With an error the attempt is used up, and after the last one the message
-- is dead.
-- Returns 'retried', 'dead', 'cancelled' (it goes instead), 'lost' or 'not_found'.
CREATE OR REPLACE FUNCTION message_retry (
    p_id BIGINT, p_token UUID, p_dequeue_at BIGINT DEFAULT NULL, p_state BYTEA DEFAULT NULL, p_error TEXT DEFAULT NULL,
    p_delay_ms BIGINT DEFAULT NULL)
RETURNS TEXT LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    RETURN (
        SELECT x.result FROM message_retry_many(
            ARRAY[p_id], ARRAY[p_token], ARRAY[p_dequeue_at], ARRAY[p_state], ARRAY[p_error], ARRAY[p_delay_ms]) x);
END $$;
