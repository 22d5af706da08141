-- Dequeues took messages of channels with a release interval: start the interval at that time. The message they took
-- was the one that was out, unless that one is still in ready; then they took it before the interval was set. Returns
-- the channels.
CREATE OR REPLACE FUNCTION slots_mark_released (p_notices notice[], p_lanes lane_state[], p_now BIGINT)
RETURNS TEXT[] LANGUAGE plpgsql AS $$
DECLARE
    v_channels TEXT[];
BEGIN
    WITH new AS MATERIALIZED (
        SELECT t.channel, MAX(w.at) AS at FROM unnest(p_notices) w CROSS JOIN LATERAL unnest(w.taken) t
        WHERE w.wanted IS NOT NULL GROUP BY t.channel),
    told AS (
        UPDATE slots s SET turn = nextval('turn'), released_at = LEAST(p_now, GREATEST(s.released_at, new.at)),
            out = CASE WHEN EXISTS (
                SELECT FROM unnest(p_lanes) l
                CROSS JOIN LATERAL (
                    SELECT FROM ready r WHERE r.channel = new.channel AND r.lane || '' = l.name AND r.tag >= l.floor
                        AND r.id = (s.out).id AND r.generation = (s.out).generation OFFSET 0) r) THEN s.out END
        FROM new
        CROSS JOIN LATERAL (
            SELECT FROM channel c WHERE c.name = new.channel AND c.release_interval_ms > 0 OFFSET 0) c
        CROSS JOIN LATERAL slots_live(new.channel) last
        WHERE s.ctid = last.tid
        RETURNING s.channel)
    SELECT array_agg(t.channel) INTO v_channels FROM told t;
    RETURN v_channels;
END $$;
