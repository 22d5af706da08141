-- Count messages of batches that are finished in this transaction. Locks the counts of their batches, the one with the
-- highest id first, so that two calls never deadlock, and so that one of them finds that its message was the last.
CREATE OR REPLACE FUNCTION batch_count_endings (p_endings batch_ending[], p_now BIGINT)
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    e RECORD;
    c batch_count;
BEGIN
    FOR e IN
        SELECT u.batch_id, COUNT(*) FILTER (WHERE u.outcome = 'completed') AS completed,
            COUNT(*) FILTER (WHERE u.outcome = 'dead') AS dead,
            COUNT(*) FILTER (WHERE u.outcome = 'cancelled') AS cancelled,
            MIN(u.id) FILTER (WHERE u.outcome = 'dead') AS dead_id
        FROM unnest(p_endings) u GROUP BY u.batch_id ORDER BY u.batch_id DESC
    LOOP
        c := batch_lock(e.batch_id);
        IF c.batch_id IS NOT NULL THEN      -- else it was removed, and a dead message of it was retried
            c.completed := c.completed + e.completed;
            c.dead := c.dead + e.dead;
            c.cancelled := c.cancelled + e.cancelled;
            PERFORM batch_write(c, p_now, e.dead_id);
        END IF;
    END LOOP;
END $$;
