-- A longer lease for the caller that holds it: until now + p_lease_ms, never earlier than it was. p_state is what the
-- next attempt finds if this one ends without a word.
-- Returns 'extended' and the lease's end; or 'cancelled' (give it up: complete or defer it, and it goes), 'lost' or
-- 'not_found'.
CREATE OR REPLACE FUNCTION message_extend (p_id BIGINT, p_token UUID, p_lease_ms BIGINT, p_state BYTEA DEFAULT NULL)
RETURNS TABLE (result TEXT, lease_end_at BIGINT) LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    RETURN QUERY
    SELECT x.result, x.lease_end_at FROM message_extend_many(ARRAY[p_id], ARRAY[p_token], p_lease_ms, ARRAY[p_state]) x;
END $$;
