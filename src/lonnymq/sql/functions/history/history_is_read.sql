-- Whether every follower has read all rows of a partition of the history. A position from another cluster says nothing,
-- so its follower may have read none of them. Waits for no one: a partition that is locked, or was dropped meanwhile,
-- counts as not read.
CREATE OR REPLACE FUNCTION history_is_read (p_partition TEXT)
RETURNS BOOLEAN LANGUAGE plpgsql AS $$
DECLARE
    f follower;
    v_system BIGINT;
    v_is_missing BOOLEAN;
BEGIN
    FOR f IN SELECT * FROM follower LOOP
        v_system := COALESCE(v_system, (SELECT system_identifier FROM pg_control_system()));
        BEGIN
            EXECUTE format('LOCK TABLE %I IN ACCESS SHARE MODE NOWAIT', p_partition);
            EXECUTE format(
                'SELECT EXISTS (SELECT FROM %1$I p WHERE p.xid >= $1)'
                || ' OR EXISTS (SELECT FROM %1$I p WHERE p.xid = ANY ($2))', p_partition)
            INTO v_is_missing
            USING CASE WHEN f.system_id = v_system THEN pg_snapshot_xmax(f.snapshot)
                ELSE '0' END, ARRAY(SELECT pg_snapshot_xip(f.snapshot));
        EXCEPTION WHEN lock_not_available OR undefined_table THEN
            RETURN FALSE;
        END;
        IF v_is_missing THEN
            RETURN FALSE;
        END IF;
    END LOOP;
    RETURN TRUE;
END $$;
