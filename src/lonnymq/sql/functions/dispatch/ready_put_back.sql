-- Entries of ready that somebody has touched: those that nobody holds any more are replaced by fresh ones, not before p_v.
-- Returns how many, and those that are held.
CREATE OR REPLACE FUNCTION ready_put_back (p_touched ready[], p_v BIGINT, OUT n INT, OUT held ready[])
LANGUAGE plpgsql AS $$
BEGIN
    WITH back AS (
        DELETE FROM ready r WHERE r.ctid = ANY (ARRAY(
            SELECT x.tid FROM unnest(p_touched) k
            CROSS JOIN LATERAL (
                SELECT r.ctid AS tid FROM ready r
                WHERE r.lane = k.lane AND r.tag = k.tag AND r.id = k.id AND r.generation = k.generation
                FOR UPDATE SKIP LOCKED) x))
        RETURNING r.*),
    again AS (
        INSERT INTO ready (lane, tag, id, generation, rank, at, cost, is_limited, channel)
        SELECT b.lane, GREATEST(b.tag, p_v), b.id, b.generation, b.rank, b.at, b.cost, b.is_limited, b.channel FROM back b
        RETURNING id)
    SELECT COUNT(*) INTO n FROM again;
    SELECT array_agg(k) INTO held FROM unnest(p_touched) k
    CROSS JOIN LATERAL (
        SELECT FROM ready r WHERE r.lane = k.lane AND r.tag = k.tag AND r.id = k.id AND r.generation = k.generation
            AND r.xmax <> '0' OFFSET 0) r;
END $$;
