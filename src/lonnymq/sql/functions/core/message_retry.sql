-- Return a message for another attempt, if the caller holds it: at p_dequeue_at, after p_delay_ms, or to its old place.
-- A state and an error replace the old ones if given. With an error the attempt is used up, and after the last one the
-- message is dead. With p_is_final it is dead now, whatever attempts are left. Otherwise the attempt does not count (a
-- release).
-- Returns 'retried', 'dead', 'cancelled' (it is deleted instead), 'lost' or 'not_found'.
CREATE OR REPLACE FUNCTION message_retry (
    p_id BIGINT, p_token UUID, p_dequeue_at BIGINT DEFAULT NULL, p_state BYTEA DEFAULT NULL, p_error TEXT DEFAULT NULL,
    p_delay_ms BIGINT DEFAULT NULL, p_is_final BOOLEAN DEFAULT FALSE)
RETURNS TEXT LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    RETURN (
        SELECT x.result FROM message_retry_many(
            ARRAY[p_id], ARRAY[p_token], ARRAY[p_dequeue_at], ARRAY[p_state], ARRAY[p_error], ARRAY[p_delay_ms],
            CASE WHEN p_is_final THEN ARRAY[TRUE] END) x);
END $$;
