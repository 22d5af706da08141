-- Whether leases_sweep has anything to do: a lease ran out; or swept_at is p_behind_ms behind while leases are still
-- running. Moving it forward keeps the index range short that every call reads. Costs nothing once the last known lease
-- has ended.
CREATE OR REPLACE FUNCTION lease_is_due (p_tick tick, p_now BIGINT, p_behind_ms BIGINT)
RETURNS BOOLEAN LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN p_tick.lease_max_at > p_tick.swept_at AND (
        p_now >= p_tick.swept_at + p_behind_ms
        OR (SELECT l.end_at FROM lease l WHERE l.end_at > p_tick.swept_at AND l.end_at <= p_now
            ORDER BY l.end_at LIMIT 1)
            IS NOT NULL);
END $$;
