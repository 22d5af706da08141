-- Delete the chunks that the caller's login role has staged under some batches, and return their messages in any order.
CREATE OR REPLACE FUNCTION staging_take_chunks (p_batches UUID[])
RETURNS TABLE (batch UUID, ord BIGINT, message new_message) LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY EXECUTE format('
        WITH x AS (
            DELETE FROM staging_chunk g WHERE g.batch = ANY ($1) AND g.staged_by = quote_ident(session_user)::REGROLE
            RETURNING g.*)
        SELECT x.batch, m.ord, m.message FROM x CROSS JOIN LATERAL (%s) m', staging_rows_query()) USING p_batches;
END $$;
