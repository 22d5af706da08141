-- The time up to which rows of audit may be deleted. NULL: all rows are kept.
CREATE OR REPLACE FUNCTION audit_keep_from (p_now BIGINT)
RETURNS BIGINT LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT p_now - NULLIF(q.audit_keep_ms, 0) FROM queue q);
END $$;
