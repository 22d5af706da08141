-- Delete rows that the caller's login role has staged under these batches and will not publish. Returns how many.
CREATE OR REPLACE FUNCTION staging_discard (p_batches UUID[])
RETURNS BIGINT LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET enable_seqscan TO off SET enable_bitmapscan TO off SET jit TO off AS $$
DECLARE
    v_login REGROLE := quote_ident(session_user)::REGROLE;
    v_gone BIGINT;
BEGIN
    DELETE FROM staging s WHERE s.batch = ANY (p_batches) AND s.staged_by = v_login;
    GET DIAGNOSTICS v_gone = ROW_COUNT;
    WITH gone AS (
        DELETE FROM staging_chunk s WHERE s.batch = ANY (p_batches) AND s.staged_by = v_login
        RETURNING cardinality(s.channel) AS n)
    SELECT v_gone + COALESCE(SUM(g.n), 0) INTO v_gone FROM gone g;
    RETURN v_gone;
END $$;
