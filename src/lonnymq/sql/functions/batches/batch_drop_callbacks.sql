-- Part of batch_cancel: close the batch and mark it as cancelled, so that it creates no callback any more. If its
-- on_complete message was to belong to another batch, counts it as cancelled there. The on_complete messages of other
-- batches that were to belong to this one will not be created either. Locks the batch, waiting for calls that add
-- messages, and the counts of all of these, the one with the highest id first. Returns 'more', because its messages are
-- still to be cancelled; 'finished' if it is finished already; 'cancelled' if it has no messages; or 'not_found'.
CREATE OR REPLACE FUNCTION batch_drop_callbacks (p_id BIGINT, p_now BIGINT)
RETURNS TEXT LANGUAGE plpgsql AS $$
DECLARE
    b batch;
    c batch_count;
    v_other batch_count;
    v_inner batch_count[];                  -- batches whose on_complete message was to belong to this one
BEGIN
    SELECT * INTO b FROM batch x WHERE x.id = p_id FOR UPDATE;
    FOR v_other IN
        SELECT l.*
        FROM (
            SELECT x.id FROM batch x WHERE x.id > p_id AND ((x.on_complete).options ->> 'batch_id')::BIGINT = p_id
            ORDER BY x.id DESC OFFSET 0) i
        CROSS JOIN LATERAL batch_lock(i.id) l
    LOOP
        IF NOT v_other.is_called THEN
            v_inner := v_inner || v_other;
        END IF;
    END LOOP;
    v_other := NULL;
    c := batch_lock(p_id);
    IF c.batch_id IS NULL THEN
        RETURN 'not_found';
    ELSIF c.finished_at IS NOT NULL THEN
        RETURN 'finished';
    END IF;
    UPDATE batch x SET cancelled_at = COALESCE(b.cancelled_at, p_now), closed_at = COALESCE(b.closed_at, p_now)
    WHERE x.id = p_id;
    IF NOT c.is_called THEN
        v_other := batch_lock(((b.on_complete).options ->> 'batch_id')::BIGINT);
    END IF;
    UPDATE batch_count x SET turn = nextval('turn'), is_called = TRUE FROM unnest(v_inner) i
    WHERE x.batch_id = i.batch_id AND x.turn = i.turn;
    c.cancelled := c.cancelled + COALESCE(cardinality(v_inner), 0);
    c.total := batch_total(c);
    c.is_called := TRUE;
    PERFORM batch_write(c, p_now);
    IF v_other.batch_id IS NOT NULL THEN
        v_other.cancelled := v_other.cancelled + 1;
        PERFORM batch_write(v_other, p_now);
    END IF;
    RETURN CASE WHEN c.total = c.completed + c.dead + c.cancelled THEN 'cancelled' ELSE 'more' END;
END $$;
