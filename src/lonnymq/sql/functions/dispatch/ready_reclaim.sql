-- p_touched are entries of ready that somebody has locked. Those whose transaction was rolled back go back into their
-- lines, together with everything else that their channels have in ready, because messages that came later may belong
-- before them. Returns those that are still locked.
CREATE OR REPLACE FUNCTION ready_reclaim (l lane_state, p_touched ready[])
RETURNS ready[] LANGUAGE plpgsql AS $$
DECLARE
    v_back ready[];
    v_locked ready[];
    -- The first tag among all other messages; if there are none, the tag that comes next.
    v_others BIGINT := COALESCE(LEAST(line_first_tag(l), (
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
        l.v := GREATEST(l.v, v_others);     -- closed lines of these channels continue here, too
        PERFORM ready_withdraw_channels(l, ARRAY(SELECT DISTINCT b.channel FROM unnest(v_back) b));
        PERFORM line_add_back(l, tags_after_rollback(l, v_back, v_others));
    END IF;
    SELECT array_agg(k) INTO v_locked FROM unnest(p_touched) k
    CROSS JOIN LATERAL (
        SELECT FROM ready r WHERE r.lane = k.lane AND r.tag = k.tag AND r.id = k.id AND r.generation = k.generation
            AND r.xmax <> '0' OFFSET 0) r;
    RETURN v_locked;
END $$;
