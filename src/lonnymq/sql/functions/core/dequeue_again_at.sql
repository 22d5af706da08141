-- When a consumer that got less than it asked for should ask again: at once when there are wakes to fold or rows that
-- others hold for the moment, else when the next channel is due; at most a second ahead, for leases that may run out.
CREATE OR REPLACE FUNCTION dequeue_again_at (p_now BIGINT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    t tick;
    v_is_woken BOOLEAN;                     -- by somebody else: what this transaction appended is not for it to fold
BEGIN
    SELECT * INTO t FROM tick ORDER BY id DESC LIMIT 1;
    SELECT COUNT(*) = 16 OR COALESCE(BOOL_OR((w.wake).xid <> pg_current_xact_id_if_assigned() OR pg_current_xact_id_if_assigned() IS NULL), FALSE)
    INTO v_is_woken FROM (SELECT * FROM wake_read(t, pg_current_snapshot(), 16) LIMIT 16) w;
    IF tick_is_foreign(t) OR v_is_woken THEN
        RETURN p_now;
    END IF;
    RETURN GREATEST(p_now + 5, LEAST(
        p_now + 1000,
        (SELECT due_at FROM ring WHERE due_at IS NOT NULL AND (due_at, turn) >= (t.floor_at, t.floor_turn) ORDER BY due_at, turn LIMIT 1),
        (SELECT due_at FROM postponed WHERE due_at > t.postponed_to ORDER BY due_at LIMIT 1)));
END $$;
