-- Part of a dequeue: write down which messages the slots it holds are for.
CREATE OR REPLACE FUNCTION queue_slot_fill (p_slots TID[], p_messages TID[], p_token UUID)
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    UPDATE queue_slot s SET turn = nextval('turn'), message_id = m.id, token = p_token
    FROM unnest(p_slots, p_messages) u (slot, tid)
    CROSS JOIN LATERAL (SELECT m.id FROM message m WHERE m.ctid = u.tid OFFSET 0) m
    WHERE s.ctid = u.slot;
END $$;
