-- Part of a dequeue: take up to p_limit entries of a lane. Skips entries that others hold, entries that a rolled-back
-- dequeue has touched (the dispatcher puts them back in their place first), and entries of the channels in p_changed,
-- whose policy has changed since the last dispatch.
CREATE OR REPLACE FUNCTION ready_take (l lane_state, p_changed TEXT[], p_limit INT)
RETURNS ready[] LANGUAGE plpgsql AS $$
DECLARE
    v_taken ready[];
BEGIN
    WITH gone AS (
        DELETE FROM ready r WHERE r.ctid = ANY (ARRAY(
            SELECT r.ctid FROM ready r
            WHERE r.lane = l.name AND r.tag >= l.floor AND r.tag <= l.horizon AND r.xmax = '0'
                AND r.channel <> ALL (p_changed)
            ORDER BY r.tag, r.id LIMIT p_limit FOR UPDATE SKIP LOCKED))
        RETURNING r)
    SELECT array_agg(g.r ORDER BY (g.r).tag, (g.r).id) INTO v_taken FROM gone g;
    RETURN v_taken;
END $$;
