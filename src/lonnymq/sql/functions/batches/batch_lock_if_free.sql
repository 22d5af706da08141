-- Part of a dispatch, which waits for no row: lock the counts of a batch, as batch_lock does, unless another session
-- has locked them. Returns FALSE then. A batch that was removed needs no lock.
CREATE OR REPLACE FUNCTION batch_lock_if_free (p_id BIGINT)
RETURNS BOOLEAN LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM batch_count x WHERE x.batch_id = p_id ORDER BY x.turn DESC LIMIT 1 FOR UPDATE SKIP LOCKED;
    RETURN FOUND OR NOT EXISTS (SELECT FROM batch b WHERE b.id = p_id);
END $$;
