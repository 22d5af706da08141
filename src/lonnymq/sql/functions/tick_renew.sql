-- Part of a fold that cannot go on from the tick, unless somebody folds at this moment. After a restore: rebuild, unless a
-- dequeue is open; the next fold tries again. After the clock was set back: due times lie in a future that was, so the next
-- folds look anew at every channel that waits for one, and the ring is read from its beginning. Nobody is held up.
CREATE OR REPLACE FUNCTION tick_renew ()
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    t tick;
    v_now BIGINT := clock_ms();
BEGIN
    PERFORM FROM fold_lock FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM fold_lock_guard();
    SELECT * INTO t FROM tick ORDER BY id DESC LIMIT 1;
    IF tick_is_foreign(t) THEN
        BEGIN
            LOCK TABLE ring IN EXCLUSIVE MODE NOWAIT;
            PERFORM rebuild();
        EXCEPTION WHEN lock_not_available THEN
            NULL;
        END;
    ELSIF v_now < t.at - 1000 THEN
        UPDATE postponed SET due_at = v_now + pause_ms WHERE id >= t.postponed_id;
        t.at := v_now;
        t.postponed_to := v_now;
        t.floor_at := -9223372036854775808;
        t.review_at := v_now;
        t.review_turn := 0;
        PERFORM tick_write(t);
    END IF;
END $$;
