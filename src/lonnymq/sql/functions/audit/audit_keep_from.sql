-- Rows of audit from up to this time are no longer kept; NULL: all are kept.
CREATE OR REPLACE FUNCTION audit_keep_from (p_now BIGINT)
RETURNS BIGINT LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT p_now - NULLIF(q.audit_keep_ms, 0) FROM queue q);
END $$;
