-- Entries of ready that somebody has touched: those that nobody holds any more are replaced by fresh ones, not before the lane's
-- virtual time. Where there are limits or a policy, which may have changed since, they go back into their line first.
-- Returns how many are fresh, and those that are held.
CREATE OR REPLACE FUNCTION ready_put_back (l lane_state, p_touched ready[], OUT n INT, OUT held ready[])
LANGUAGE plpgsql AS $$
DECLARE
    v_is_limited BOOLEAN := (SELECT q.max_concurrency IS NOT NULL FROM queue q);
    v_line ready[];
BEGIN
    WITH back AS MATERIALIZED (
        DELETE FROM ready r WHERE r.ctid = ANY (ARRAY(
            SELECT x.tid FROM unnest(p_touched) k
            CROSS JOIN LATERAL (
                SELECT r.ctid AS tid FROM ready r
                WHERE r.lane = k.lane AND r.tag = k.tag AND r.id = k.id AND r.generation = k.generation
                FOR UPDATE SKIP LOCKED) x))
        RETURNING r.lane, GREATEST(r.tag, l.v) AS tag, r.id, r.generation, r.rank, r.at, r.cost, r.is_limited, r.channel,
            r.is_limited OR v_is_limited OR EXISTS (SELECT FROM channel c WHERE c.name = r.channel) AS has_policy),
    again AS (
        INSERT INTO ready (lane, tag, id, generation, rank, at, cost, is_limited, channel)
        SELECT b.lane, b.tag, b.id, b.generation, b.rank, b.at, b.cost, b.is_limited, b.channel FROM back b
        WHERE NOT b.has_policy)
    SELECT COUNT(*) FILTER (WHERE NOT b.has_policy),
        array_agg(ROW(b.lane, b.tag, b.id, b.generation, b.rank, b.at, b.cost, b.is_limited, b.channel)::ready)
            FILTER (WHERE b.has_policy)
    INTO n, v_line FROM back b;
    PERFORM line_return(l, v_line);
    SELECT array_agg(k) INTO held FROM unnest(p_touched) k
    CROSS JOIN LATERAL (
        SELECT FROM ready r WHERE r.lane = k.lane AND r.tag = k.tag AND r.id = k.id AND r.generation = k.generation
            AND r.xmax <> '0' OFFSET 0) r;
END $$;
