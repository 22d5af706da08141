-- Extend the lease of a message that the caller holds: to now + p_lease_ms, never to an earlier time than before.
-- p_state is stored for the next attempt, in case this one ends without a call.
-- Returns 'extended' and the lease's end; or 'cancelled' (stop working on it: completing or retrying it deletes it),
-- 'lost' or 'not_found'.
CREATE OR REPLACE FUNCTION message_extend (p_id BIGINT, p_token UUID, p_lease_ms BIGINT, p_state BYTEA DEFAULT NULL)
RETURNS TABLE (result TEXT, lease_end_at BIGINT) LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    RETURN QUERY
    SELECT x.result, x.lease_end_at FROM message_extend_many(ARRAY[p_id], ARRAY[p_token], p_lease_ms, ARRAY[p_state]) x;
END $$;
