-- Whether every follower has all rows of a partition of the history. Positions of another cluster hold nothing back.
CREATE OR REPLACE FUNCTION history_is_read (p_partition TEXT)
RETURNS BOOLEAN LANGUAGE plpgsql STABLE AS $$
DECLARE
    f follower;
    v_is_missing BOOLEAN;
BEGIN
    FOR f IN SELECT * FROM follower x WHERE x.system_id = (SELECT system_identifier FROM pg_control_system()) LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM %1$I p WHERE p.xid >= $1) OR EXISTS (SELECT FROM %1$I p WHERE p.xid = ANY ($2))', p_partition)
        INTO v_is_missing USING pg_snapshot_xmax(f.snapshot), ARRAY(SELECT pg_snapshot_xip(f.snapshot));
        IF v_is_missing THEN
            RETURN FALSE;
        END IF;
    END LOOP;
    RETURN TRUE;
END $$;
