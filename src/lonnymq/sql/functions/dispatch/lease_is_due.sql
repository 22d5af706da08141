-- Whether the sweep has something to do: a lease ran out; or it has fallen p_behind_ms behind while leases may still
-- end, so that the stretch it must look through stays short. Once the last lease's end is swept the answer costs
-- nothing.
CREATE OR REPLACE FUNCTION lease_is_due (p_tick tick, p_now BIGINT, p_behind_ms BIGINT)
RETURNS BOOLEAN LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN p_tick.lease_max_at > p_tick.swept_at AND (
        p_now >= p_tick.swept_at + p_behind_ms
        OR (SELECT l.end_at FROM lease l WHERE l.end_at > p_tick.swept_at AND l.end_at <= p_now
            ORDER BY l.end_at LIMIT 1)
            IS NOT NULL);
END $$;
