-- The time before which the history is no longer kept; NULL: all of it is kept.
CREATE OR REPLACE FUNCTION history_keep_from (p_now BIGINT)
RETURNS BIGINT LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT p_now - NULLIF(q.history_keep_ms, 0) FROM queue q);
END $$;
