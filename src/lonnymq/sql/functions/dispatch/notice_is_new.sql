-- Whether another transaction has appended a notice since the tick. Ignores the transactions that were open at the
-- tick, and so costs only one index probe.
CREATE OR REPLACE FUNCTION notice_is_new (p_tick tick)
RETURNS BOOLEAN LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM (
            SELECT w.xid FROM notice w WHERE (w.xid, w.id) > (p_tick.seen_xid, p_tick.seen_id)
            ORDER BY w.xid, w.id LIMIT 16) w
        WHERE w.xid IS DISTINCT FROM pg_current_xact_id_if_assigned());
END $$;
