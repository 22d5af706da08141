-- How many slots of the limit over all channels are taken.
CREATE OR REPLACE FUNCTION queue_slot_busy ()
RETURNS INT LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT COUNT(*)
        FROM generate_series(1, COALESCE((SELECT s.number FROM queue_slot s ORDER BY s.number DESC, s.turn DESC LIMIT 1), 0)) g
        CROSS JOIN LATERAL (SELECT s.message_id, s.token FROM queue_slot s WHERE s.number = g ORDER BY s.number DESC, s.turn DESC LIMIT 1) last
        CROSS JOIN LATERAL (SELECT FROM message m WHERE m.id = last.message_id AND m.token = last.token OFFSET 0) m);
END $$;
