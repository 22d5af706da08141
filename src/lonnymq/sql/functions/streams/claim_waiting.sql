-- How many messages wait for claims from these lanes and channels (see claim_channels), as of the last dispatch: those
-- that are due and not leased, also if limits hold them back. Locks nothing. Without p_channels it reads all backlogs.
CREATE OR REPLACE FUNCTION claim_waiting (
    p_lanes TEXT[] DEFAULT NULL, p_channels TEXT[] DEFAULT NULL, p_pattern TEXT DEFAULT NULL)
RETURNS BIGINT LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    v_whole TEXT;
BEGIN
    PERFORM unbound_check('claim_waiting');
    IF p_channels IS NOT NULL THEN
        RETURN (
            SELECT COALESCE(SUM(b.n + r.n), 0)
            FROM (SELECT unnest(claim_channels(p_channels, p_pattern, p_lanes)) AS name) u
            CROSS JOIN LATERAL (
                SELECT COALESCE(SUM(b.n), 0) AS n FROM backlog b
                WHERE b.channel = u.name AND (p_lanes IS NULL OR b.lane = ANY (p_lanes))) b
            CROSS JOIN LATERAL (
                SELECT COUNT(*) AS n FROM ready r
                WHERE r.channel = u.name AND (p_lanes IS NULL OR r.lane = ANY (p_lanes))) r);
    END IF;
    IF p_pattern IS NOT NULL THEN
        v_whole := pattern_whole(p_pattern);
    END IF;
    RETURN (SELECT COALESCE(SUM(b.n), 0) FROM backlog b
            WHERE (p_lanes IS NULL OR b.lane = ANY (p_lanes)) AND (v_whole IS NULL OR b.channel ~ v_whole))
        + (SELECT COUNT(*) FROM ready r
            WHERE (p_lanes IS NULL OR r.lane = ANY (p_lanes)) AND (v_whole IS NULL OR r.channel ~ v_whole));
END $$;
