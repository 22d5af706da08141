-- Part of channels_dispatch: whether ready has fewer than p_limit messages of these channels that can be taken,
-- although a line of them may release; or has entries that a rolled-back dequeue has touched. Locks nothing. Reads, for
-- each channel, its backlog and what it has in ready.
CREATE OR REPLACE FUNCTION channels_are_low (
    l lane_state, p_channels TEXT[], p_limit INT, p_max INT, p_now BIGINT)
RETURNS BOOLEAN LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_first BIGINT := channels_first_tag(l, p_channels);
    v RECORD;
BEGIN
    SELECT COUNT(*) FILTER (WHERE r.xmax = '0' AND r.tag <= v_first) AS n,
        array_agg(r.xmax) FILTER (WHERE r.xmax <> '0') AS takers
    INTO v
    FROM unnest(p_channels) u (name)
    CROSS JOIN LATERAL (
        SELECT r.xmax, r.tag FROM ready r WHERE r.channel = u.name AND r.lane || '' = l.name AND r.tag >= l.floor
        OFFSET 0) r;
    RETURN v_first IS NOT NULL AND v.n < p_limit AND (COALESCE(queue_room(p_max) > 0, TRUE) OR lane_is_idle(l, p_now))
        OR EXISTS (SELECT FROM (SELECT DISTINCT unnest(v.takers)) k (xmax) WHERE NOT transaction_is_open(k.xmax));
END $$;
