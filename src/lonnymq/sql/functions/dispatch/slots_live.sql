-- The slots of a channel ('': the queue): its row with the highest turn; none if it has no limit. It is inlined into
-- the queries that use it.
CREATE OR REPLACE FUNCTION slots_live (p_channel TEXT)
RETURNS TABLE (
    tid TID, busy stub[], pruned_to INT, pruned_at BIGINT, changed_at BIGINT, has_older BOOLEAN, alarm_at BIGINT,
    interval_us BIGINT, burst INT, released_at BIGINT, full_at_us BIGINT, "out" stub[])
LANGUAGE sql STABLE AS $$
    SELECT s.ctid, s.busy, s.pruned_to, s.pruned_at, s.changed_at, s.has_older, s.alarm_at, s.interval_us,
        s.burst, s.released_at, s.full_at_us, s.out
    FROM slots s WHERE s.channel = p_channel ORDER BY s.channel DESC, s.turn DESC LIMIT 1
$$;
