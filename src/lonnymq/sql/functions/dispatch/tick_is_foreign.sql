-- Whether the tick cannot be gone on from: there is none, or it is from another cluster (a restored dump, whose
-- transaction numbers mean nothing here).
CREATE OR REPLACE FUNCTION tick_is_foreign (p_tick tick)
RETURNS BOOLEAN LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF p_tick.id IS NULL OR p_tick.seen_xid > pg_snapshot_xmax(pg_current_snapshot()) THEN
        RETURN TRUE;
    END IF;
    -- Reading the system identifier opens a file; the server's start time is at hand.
    RETURN p_tick.started_at <> pg_postmaster_start_time()
        AND p_tick.system_id <> (SELECT system_identifier FROM pg_control_system());
END $$;
