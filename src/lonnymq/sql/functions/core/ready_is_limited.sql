-- Whether a dequeue took messages of a channel with a limit. A crash must not undo such a dequeue: more messages of the
-- channel would then be served while these still run.
CREATE OR REPLACE FUNCTION ready_is_limited (p_taken ready[])
RETURNS BOOLEAN LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM (SELECT DISTINCT r.channel FROM unnest(p_taken) r) r
        CROSS JOIN LATERAL (
            SELECT FROM channel_limits(r.channel) p
            WHERE p.max_concurrency IS NOT NULL OR p.interval_us IS NOT NULL OFFSET 0) p);
END $$;
