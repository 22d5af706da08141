-- Part of dead_retry: dead messages of these batches, one element each, are alive again. A batch that was finished is
-- unfinished again. Locks the counts of the batches, the one with the highest id first.
CREATE OR REPLACE FUNCTION batch_reopen (p_batch_ids BIGINT[], p_now BIGINT)
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    e RECORD;
    c batch_count;
BEGIN
    FOR e IN
        SELECT u.batch_id, COUNT(*) AS n FROM unnest(p_batch_ids) u (batch_id) GROUP BY u.batch_id
        ORDER BY u.batch_id DESC
    LOOP
        c := batch_lock(e.batch_id);
        IF c.batch_id IS NOT NULL THEN      -- else it was removed
            c.dead := c.dead - e.n;
            PERFORM batch_write(c, p_now);
        END IF;
    END LOOP;
END $$;
