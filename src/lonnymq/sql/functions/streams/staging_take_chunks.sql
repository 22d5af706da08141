-- Delete the chunks that the caller's login role has staged under some batches, and return their messages in any order.
CREATE OR REPLACE FUNCTION staging_take_chunks (p_batches UUID[])
RETURNS TABLE (batch UUID, ord BIGINT, message new_message) LANGUAGE sql AS $$
WITH gone AS (
    DELETE FROM staging_chunk g WHERE g.batch = ANY (p_batches) AND g.staged_by = quote_ident(session_user)::REGROLE
    RETURNING g.batch, g AS chunk)
SELECT x.batch, m.ord, m.message FROM gone x CROSS JOIN LATERAL staging_rows(x.chunk) m
$$;
