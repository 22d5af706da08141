-- How many messages a batch has, those that are finished included.
CREATE OR REPLACE FUNCTION batch_total (c batch_count)
RETURNS BIGINT LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN COALESCE(c.total, (SELECT SUM(p.n) FROM batch_part p WHERE p.batch_id = c.batch_id), 0);
END $$;
