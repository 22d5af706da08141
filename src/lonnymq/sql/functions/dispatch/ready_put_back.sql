-- Entries of ready that somebody has touched. Those that nobody holds any more were given back by a rollback: they go
-- back into their lines, with all that their channels have in ready, because what came meanwhile may belong before
-- them. Returns those that are held.
CREATE OR REPLACE FUNCTION ready_put_back (l lane_state, p_touched ready[])
RETURNS ready[] LANGUAGE plpgsql AS $$
DECLARE
    v_back ready[];
    v_held ready[];
    -- The first tag that is not given back; if all else was served, the one that is dealt next.
    v_others BIGINT := COALESCE(LEAST(line_first(l), (
        SELECT r.tag FROM ready r WHERE r.lane = l.name AND r.tag >= l.floor AND r.xmax = '0'
        ORDER BY r.tag, r.id LIMIT 1)), l.issued + 1);
BEGIN
    WITH touched AS MATERIALIZED (
        SELECT r.* FROM unnest(p_touched) k
        CROSS JOIN LATERAL (
            SELECT r.ctid AS tid, r.xmax FROM ready r
            WHERE r.lane = k.lane AND r.tag = k.tag AND r.id = k.id AND r.generation = k.generation OFFSET 0) r),
    open AS MATERIALIZED (
        SELECT o.xmax FROM (SELECT DISTINCT t.xmax FROM touched t) o WHERE transaction_is_open(o.xmax)),
    back AS (
        DELETE FROM ready r WHERE r.ctid = ANY (ARRAY(
            SELECT x.tid FROM touched t
            CROSS JOIN LATERAL (SELECT r.ctid AS tid FROM ready r WHERE r.ctid = t.tid FOR UPDATE SKIP LOCKED) x
            WHERE COALESCE(t.xmax NOT IN (SELECT o.xmax FROM open o), TRUE)))
        RETURNING r.*)
    SELECT array_agg(ROW(b.lane, b.tag, b.id, b.generation, b.rank, b.at, b.cost, b.is_limited, b.channel)::ready)
    INTO v_back FROM back b;
    IF v_back IS NOT NULL THEN
        l.v := GREATEST(l.v, v_others);     -- lines of these channels that were closed go on here, too
        PERFORM ready_take_back(l, ARRAY(
            SELECT DISTINCT ROW(0, 0, -32768, -9223372036854775808, 0, l.name, b.channel)::entry
                FROM unnest(v_back) b));
        PERFORM line_return(l, tags_after_rollback(l, v_back, v_others));
    END IF;
    SELECT array_agg(k) INTO v_held FROM unnest(p_touched) k
    CROSS JOIN LATERAL (
        SELECT FROM ready r WHERE r.lane = k.lane AND r.tag = k.tag AND r.id = k.id AND r.generation = k.generation
            AND r.xmax <> '0' OFFSET 0) r;
    RETURN v_held;
END $$;
