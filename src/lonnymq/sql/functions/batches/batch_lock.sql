-- Lock the counts of a batch until the transaction ends, and return them; NULL if the batch was removed. A call that
-- locks several batches locks the one with the highest id first.
CREATE OR REPLACE FUNCTION batch_lock (p_id BIGINT)
RETURNS batch_count LANGUAGE plpgsql AS $$
DECLARE
    c batch_count;
BEGIN
    SELECT * INTO c FROM batch_count x WHERE x.batch_id = p_id ORDER BY x.turn DESC LIMIT 1 FOR UPDATE;
    RETURN c;
END $$;
