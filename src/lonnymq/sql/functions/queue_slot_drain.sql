-- While leases from before a limit over all channels was lowered still run: how many messages fit under it besides those that
-- run, and those that an open dequeue may have. Slots above the limit that came free go. One at a time: who does not get the gate
-- finds no room, so the transaction that has it must end within a few seconds (lock_guard).
CREATE OR REPLACE FUNCTION queue_slot_drain (p_max INT)
RETURNS INT LANGUAGE plpgsql AS $$
DECLARE
    v_taken INT;
    v_free TID[];
BEGIN
    PERFORM FROM queue_slot WHERE number = 0 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    PERFORM lock_guard();
    SELECT COUNT(*) FILTER (WHERE f.tid IS NULL), array_agg(f.tid) FILTER (WHERE last.number > p_max AND f.tid IS NOT NULL) INTO v_taken, v_free
    FROM generate_series(1, (SELECT MAX(s.number) FROM queue_slot s)) g
    CROSS JOIN LATERAL (
        SELECT s.number, s.turn, s.message_id, s.token FROM queue_slot s WHERE s.number = g ORDER BY s.number DESC, s.turn DESC LIMIT 1) last
    LEFT JOIN LATERAL (
        SELECT TRUE AS is_busy FROM message m WHERE m.id = last.message_id AND m.token = last.token OFFSET 0) b ON TRUE
    LEFT JOIN LATERAL (
        SELECT s.ctid AS tid FROM queue_slot s
        WHERE b.is_busy IS NULL AND s.number = last.number AND s.turn = last.turn FOR UPDATE SKIP LOCKED) f ON TRUE;
    DELETE FROM queue_slot s USING unnest(v_free) f (tid) WHERE s.ctid = f.tid;
    RETURN GREATEST(0, p_max - v_taken);
END $$;
