-- Close a batch: no more messages can be added, and it is finished when all of its messages are. A batch without
-- messages is finished now. Waits for open transactions that add messages to it or finish messages of it. READ
-- COMMITTED only, unless the transaction itself has opened the batch. Returns 'closed', also if it was closed before,
-- or 'not_found'.
CREATE OR REPLACE FUNCTION batch_close (p_id BIGINT)
RETURNS TEXT LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    b batch;
    c batch_count;
    v_now BIGINT := clock_ms();
BEGIN
    PERFORM unbound_check('batch_close');
    SELECT * INTO b FROM batch x WHERE x.id = p_id FOR UPDATE;
    IF b.id IS NULL THEN
        RETURN 'not_found';
    ELSIF b.closed_at IS NULL THEN
        IF b.xid <> pg_current_xact_id() THEN -- an older snapshot would not see what others have added
            PERFORM isolation_check('batch_close of a batch that another transaction opened');
        END IF;
        UPDATE batch x SET closed_at = v_now WHERE x.id = p_id;
        c := batch_lock(p_id);
        c.total := batch_total(c);
        PERFORM batch_write(c, v_now);
    END IF;
    RETURN 'closed';
END $$;
