-- Batches that were finished up to this time are no longer kept; NULL: all are kept.
CREATE OR REPLACE FUNCTION batch_keep_from (p_now BIGINT)
RETURNS BIGINT LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT p_now - NULLIF(q.batch_keep_ms, 0) FROM queue q);
END $$;
