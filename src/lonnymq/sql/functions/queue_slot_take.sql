-- Part of a dequeue under a limit over all channels: hold up to p_limit free slots, stepping over those that others hold, from a slot by
-- chance on. Returns their addresses; NULL: there is none.
-- A slot whose row has not changed since it was read, and whose message was not leased under its token then, is free for good: only who holds
-- the row can lease a message for it.
CREATE OR REPLACE FUNCTION queue_slot_take (p_max INT, p_limit INT)
RETURNS TID[] LANGUAGE plpgsql AS $$
DECLARE
    v_start INT := floor(random() * p_max);
    v_room INT := p_limit;
BEGIN
    IF EXISTS (SELECT FROM queue_slot s WHERE s.number > p_max) THEN
        v_room := LEAST(p_limit, queue_slot_drain(p_max));
    END IF;
    RETURN (
        SELECT array_agg(x.tid)
        FROM (
            SELECT s.tid
            FROM generate_series(0, CASE WHEN v_room > 0 THEN p_max - 1 ELSE -1 END) g
            CROSS JOIN LATERAL (
                SELECT s.number, s.turn, s.message_id, s.token FROM queue_slot s
                WHERE s.number = (v_start + g) % p_max + 1 ORDER BY s.number DESC, s.turn DESC LIMIT 1) last
            LEFT JOIN LATERAL (
                SELECT TRUE AS is_busy FROM message m
                WHERE m.id = last.message_id AND m.token = last.token OFFSET 0) b ON TRUE
            CROSS JOIN LATERAL (
                SELECT s.ctid AS tid FROM queue_slot s
                WHERE b.is_busy IS NULL AND s.number = last.number AND s.turn = last.turn FOR UPDATE SKIP LOCKED) s
            LIMIT v_room) x);
END $$;
