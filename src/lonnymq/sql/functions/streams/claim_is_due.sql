-- Whether a dequeue may find something, as of the last dispatch: entries of ready up to their lane's horizon, or
-- backlogs that may release messages; in p_lanes, or in all lanes. With p_channels, entries and backlogs of these
-- channels, whatever the horizon. With p_before, only messages that were due at that time count; in a backlog, those of
-- any priority. Locks nothing.
CREATE OR REPLACE FUNCTION claim_is_due (p_before BIGINT, p_lanes TEXT[], p_channels TEXT[])
RETURNS BOOLEAN LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_lanes lane_state[] := ARRAY(
        SELECT l FROM unnest((SELECT t.lanes FROM tick t ORDER BY t.id DESC LIMIT 1)) l
        WHERE p_lanes IS NULL OR l.name = ANY (p_lanes));
BEGIN
    IF p_channels IS NOT NULL THEN
        RETURN EXISTS (
            SELECT FROM unnest(v_lanes) n CROSS JOIN unnest(p_channels) u (name)
            CROSS JOIN LATERAL (
                SELECT FROM ready r WHERE r.channel = u.name AND r.lane || '' = n.name AND r.tag >= n.floor
                    AND (p_before IS NULL OR r.at <= p_before) LIMIT 1) r)
            OR EXISTS (
                SELECT FROM unnest(v_lanes) n CROSS JOIN unnest(p_channels) u (name)
                CROSS JOIN LATERAL backlog_live(u.name, n.name) b
                CROSS JOIN unnest(b.ranges) s
                CROSS JOIN generate_series(s.lo_rank::INT, s.hi_rank) k (rank)
                CROSS JOIN LATERAL (
                    SELECT FROM line e
                    WHERE b.is_open AND e.channel = u.name AND e.lane = n.name AND e.rank = k.rank
                        AND (e.rank, e.at, e.id) >= (s.lo_rank, s.lo_at, s.lo_id)
                        AND (p_before IS NULL OR e.at <= p_before)
                    LIMIT 1) e);
    END IF;
    RETURN EXISTS (
        SELECT FROM unnest(v_lanes) n
        CROSS JOIN LATERAL (
            SELECT FROM ready r
            WHERE r.lane = n.name AND r.tag >= n.floor AND r.tag <= n.horizon AND (p_before IS NULL OR r.at <= p_before)
            LIMIT 1) r)
        OR EXISTS (
            SELECT FROM unnest(v_lanes) n
            CROSS JOIN LATERAL (
                SELECT b.channel, b.ranges FROM backlog b
                WHERE b.is_open AND b.lane = n.name AND b.tag >= n.v ORDER BY b.tag, b.turn OFFSET 0) b
            CROSS JOIN unnest(b.ranges) s
            CROSS JOIN generate_series(s.lo_rank::INT, s.hi_rank) k (rank)
            CROSS JOIN LATERAL (
                SELECT FROM line e
                WHERE e.channel = b.channel AND e.lane = n.name AND e.rank = k.rank
                    AND (e.rank, e.at, e.id) >= (s.lo_rank, s.lo_at, s.lo_id) AND (p_before IS NULL OR e.at <= p_before)
                LIMIT 1) e);
END $$;
