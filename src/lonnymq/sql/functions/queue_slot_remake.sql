-- A limit over all channels is set, changed or lifted. When it is new, what runs already must count: this waits for open
-- dequeues, holds new ones up until the transaction ends, and gives every leased message a slot, also above the limit; these come
-- free first. When it changes, this waits for an open dequeue that takes slots above a lowered limit away. The transaction must end
-- within a few seconds (lock_guard).
CREATE OR REPLACE FUNCTION queue_slot_remake (p_old INT, p_new INT)
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF p_new IS NULL THEN
        RETURN;
    END IF;
    PERFORM isolation_check('queue_set(p_max_concurrency => ...)');
    IF p_old IS NULL THEN
        LOCK TABLE queue_slot IN EXCLUSIVE MODE; -- slots before the ring, as a dequeue takes them
        LOCK TABLE ring IN EXCLUSIVE MODE;
        DELETE FROM queue_slot;
        INSERT INTO queue_slot (number, turn) VALUES (0, 0);
        INSERT INTO queue_slot (number, turn, message_id, token)
        SELECT ROW_NUMBER() OVER (ORDER BY m.lease_end_at DESC, m.id), nextval('turn'), m.id, m.token FROM message m WHERE m.leased;
    ELSE
        PERFORM FROM queue_slot WHERE number = 0 FOR UPDATE;
    END IF;
    INSERT INTO queue_slot (number, turn)
    SELECT g, nextval('turn') FROM generate_series(1, p_new) g WHERE NOT EXISTS (SELECT FROM queue_slot s WHERE s.number = g);
    PERFORM lock_guard();
END $$;
