-- Write the counts of a batch, which the caller has locked and changed. p_dead_id: a message that died now. The first
-- one creates the on_failure message. If all messages of a closed batch are finished, creates the on_complete message.
-- A cancelled batch creates neither.
CREATE OR REPLACE FUNCTION batch_write (c batch_count, p_now BIGINT, p_dead_id BIGINT DEFAULT NULL)
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_has_failed BOOLEAN := c.failed_at IS NULL AND p_dead_id IS NOT NULL;
    v_is_finished BOOLEAN := COALESCE(c.completed + c.dead + c.cancelled = c.total, FALSE);
    v_calls BOOLEAN := v_is_finished AND NOT c.is_called;
    b batch;
BEGIN
    IF v_has_failed THEN
        c.failed_at := p_now;
        c.failed_id := p_dead_id;
    END IF;
    UPDATE batch_count x
    SET turn = nextval('turn'), total = c.total, completed = c.completed, dead = c.dead, cancelled = c.cancelled,
        failed_at = c.failed_at, failed_id = c.failed_id, is_called = c.is_called OR v_calls,
        finished_at = CASE WHEN v_is_finished THEN COALESCE(c.finished_at, p_now) END
    WHERE x.batch_id = c.batch_id AND x.turn = c.turn;
    IF v_has_failed OR v_calls THEN
        SELECT * INTO b FROM batch x WHERE x.id = c.batch_id;
        IF b.cancelled_at IS NOT NULL THEN
            RETURN;
        END IF;
        IF v_has_failed AND (b.on_failure).channel IS NOT NULL THEN
            PERFORM callback_create(b.on_failure, b, c);
        END IF;
        IF v_calls AND (b.on_complete).channel IS NOT NULL THEN
            PERFORM callback_create(b.on_complete, b, c);
        END IF;
    END IF;
END $$;
