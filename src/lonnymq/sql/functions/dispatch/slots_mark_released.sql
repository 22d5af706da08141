-- Dequeues took messages of channels with a rate: each message takes a token at the time of its dequeue. If notices
-- come out of order, the bucket is emptier than it could be, never fuller. It never lacks more tokens than its burst,
-- even if messages were taken before the rate was set and had no token. Returns the channels.
CREATE OR REPLACE FUNCTION slots_mark_released (p_notices notice[], p_lanes lane_state[], p_now BIGINT)
RETURNS TEXT[] LANGUAGE plpgsql SET enable_hashjoin TO on AS $$ -- for arrays and CTEs
DECLARE
    v_channels TEXT[];
BEGIN
    WITH taken AS MATERIALIZED (            -- n_from: how many were taken at this time or later
        SELECT t.channel, t.n, x.at, SUM(t.n) OVER (PARTITION BY t.channel ORDER BY x.at DESC) AS n_from
        FROM unnest(p_notices) w CROSS JOIN LATERAL unnest(w.taken) t
        CROSS JOIN LATERAL (                -- a time in the future is from before the clock was set back
            SELECT CASE WHEN t.at > p_now + 1000 THEN p_now ELSE t.at END AS at) x
        WHERE w.wanted IS NOT NULL),
    rates AS MATERIALIZED (
        SELECT k.channel, s.tid, s.interval_us, s.burst FROM (SELECT DISTINCT t.channel FROM taken t) k
        CROSS JOIN LATERAL slots_live(k.channel) s
        WHERE s.interval_us IS NOT NULL),
    new AS MATERIALIZED (
        SELECT r.channel, r.tid, r.interval_us, r.burst, SUM(t.n) AS n, MAX(t.at) AS at,
            MAX(1000 * t.at + t.n_from * r.interval_us) AS full_at_us
        FROM rates r JOIN taken t ON t.channel = r.channel GROUP BY r.channel, r.tid, r.interval_us, r.burst),
    told AS (
        UPDATE slots s
        SET turn = nextval('turn'), released_at = GREATEST(s.released_at, new.at),
            full_at_us = LEAST(GREATEST(s.full_at_us + new.n * new.interval_us, new.full_at_us),
                1000 * GREATEST(s.released_at, new.at) + new.burst * new.interval_us),
            out = slots_take_out(new.channel, s.out, new.n, p_lanes)
        FROM new WHERE s.ctid = new.tid
        RETURNING s.channel)
    SELECT array_agg(t.channel) INTO v_channels FROM told t;
    RETURN v_channels;
END $$;
