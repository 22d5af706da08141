-- Part of a fold: the lowest live, due ring row, below which nobody need look.
-- A dequeue writes a row no lower than it was, and a fold no lower than the floor, whatever the clock does between two readings, so the
-- floor only rises. A row that has not moved since the last tick may be held by a transaction left open: it is stepped over and its
-- channel returned, to be postponed, or the dead rows that pile up behind it would lie in everyone's way.
CREATE OR REPLACE FUNCTION ring_floor (
    p_tick tick, p_now BIGINT, p_limit INT, OUT floor_at BIGINT, OUT floor_turn BIGINT, OUT held TEXT[])
LANGUAGE plpgsql AS $$
DECLARE
    r RECORD;
    u RECORD;
    v_last BIGINT[];
BEGIN
    SELECT due_at, turn INTO r FROM ring
    WHERE due_at IS NOT NULL AND (due_at, turn) >= (p_tick.floor_at, p_tick.floor_turn)
    ORDER BY due_at, turn LIMIT 1;
    IF r.due_at <= p_now AND (r.due_at >= p_now - 200 OR (r.due_at, r.turn) <> (p_tick.floor_at, p_tick.floor_turn)) THEN
        floor_at := r.due_at;
        floor_turn := r.turn;
        RETURN;
    ELSIF r.due_at <= p_now THEN
        SELECT due_at, turn INTO u FROM ring
        WHERE due_at IS NOT NULL AND (due_at, turn) >= (r.due_at, r.turn) AND due_at <= p_now
        ORDER BY due_at, turn LIMIT 1 FOR UPDATE SKIP LOCKED;
        IF (u.due_at, u.turn) = (r.due_at, r.turn) THEN
            floor_at := u.due_at;           -- it is free, and nobody came for it yet
            floor_turn := u.turn;
            RETURN;
        END IF;
        -- One upper bound only: with two of them, the index is read up to the wider one.
        SELECT array_agg('c' || x.channel), MAX(ARRAY[x.due_at, x.turn]) INTO held, v_last
        FROM (
            SELECT channel, due_at, turn FROM ring
            WHERE due_at IS NOT NULL AND (due_at, turn) >= (r.due_at, r.turn)
                AND (due_at, turn) < (COALESCE(u.due_at, p_now + 1), COALESCE(u.turn, 0))
            ORDER BY due_at, turn LIMIT p_limit) x;
        IF cardinality(held) = p_limit THEN
            floor_at := v_last[1];
            floor_turn := v_last[2] + 1;
            RETURN;
        ELSIF u.due_at IS NOT NULL THEN
            floor_at := u.due_at;
            floor_turn := u.turn;
            RETURN;
        END IF;
    END IF;
    -- Nothing is due: what becomes due from now on is placed at the clock or later.
    IF p_now > p_tick.floor_at THEN
        floor_at := p_now;
        floor_turn := 0;
    ELSE
        floor_at := p_tick.floor_at;
        floor_turn := p_tick.floor_turn;
    END IF;
END $$;
