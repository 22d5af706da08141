-- Whether the dispatcher cannot continue from this tick: there is none, or it comes from another cluster (a restored
-- dump, whose transaction ids mean nothing here).
CREATE OR REPLACE FUNCTION tick_is_unusable (p_tick tick)
RETURNS BOOLEAN LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF p_tick.id IS NULL OR p_tick.seen_xid > pg_snapshot_xmax(pg_current_snapshot()) THEN
        RETURN TRUE;
    END IF;
    -- The start time is cheap to read; the system identifier is read from a file.
    RETURN p_tick.started_at <> pg_postmaster_start_time()
        AND p_tick.system_id <> (SELECT system_identifier FROM pg_control_system());
END $$;
