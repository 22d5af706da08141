-- Part of a dequeue from certain channels: take up to p_limit of their entries, lowest tag first, also above the
-- horizon of the lane, but not above the first tag in the lines of these channels. Skips what ready_take skips.
CREATE OR REPLACE FUNCTION ready_take_channels (l lane_state, p_channels TEXT[], p_changed TEXT[], p_limit INT)
RETURNS ready[] LANGUAGE plpgsql AS $$
DECLARE
    c_end CONSTANT BIGINT := 9223372036854775807;
    v_to BIGINT := CASE WHEN l.horizon = c_end THEN c_end ELSE COALESCE(channels_first_tag(l, p_channels), c_end) END;
    v_taken ready[];
BEGIN
    WITH first AS MATERIALIZED (
        SELECT x.tid FROM unnest(p_channels) u (name)
        CROSS JOIN LATERAL (
            SELECT r.ctid AS tid, r.tag, r.id FROM ready r
            WHERE r.channel = u.name AND r.lane || '' = l.name AND r.tag >= l.floor AND r.tag <= v_to AND r.xmax = '0'
                AND r.channel <> ALL (p_changed)
            ORDER BY r.channel, r.tag, r.id LIMIT p_limit) x
        ORDER BY x.tag, x.id LIMIT p_limit),
    gone AS (
        DELETE FROM ready r WHERE r.ctid = ANY (ARRAY(
            SELECT r.ctid FROM ready r WHERE r.ctid = ANY (ARRAY(SELECT f.tid FROM first f)) FOR UPDATE SKIP LOCKED))
        RETURNING r)
    SELECT array_agg(g.r ORDER BY (g.r).tag, (g.r).id) INTO v_taken FROM gone g;
    RETURN v_taken;
END $$;
