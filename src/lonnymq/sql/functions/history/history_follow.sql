-- Record that a follower has read all history that a snapshot sees. Rows that it has not read are kept, however old
-- they are, so a follower that stops for good must call history_unfollow. Positions only move forward.
CREATE OR REPLACE FUNCTION history_follow (p_name TEXT, p_snapshot TEXT)
RETURNS VOID LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT AS $$
DECLARE
    v_snapshot PG_SNAPSHOT;
BEGIN
    PERFORM unbound_check('history_follow');
    BEGIN
        v_snapshot := p_snapshot;
    EXCEPTION WHEN invalid_text_representation THEN
        NULL;                               -- refused below
    END;
    IF p_name IS NULL OR octet_length(p_name) NOT BETWEEN 1 AND 255 OR v_snapshot IS NULL THEN
        PERFORM refuse('LM010', 'the follower''s name or snapshot is not valid',
            'Give it a name of 1 to 255 bytes and a snapshot.');
    END IF;
    IF pg_snapshot_xmax(v_snapshot) > pg_snapshot_xmax(pg_current_snapshot()) THEN
        PERFORM refuse('LM015', format('follower %s is ahead of the history', quote_literal(p_name)),
            'Its position is from another cluster, or the database was restored.');
    END IF;
    INSERT INTO follower AS f (name, snapshot, system_id, at)
    VALUES (p_name, v_snapshot, (SELECT system_identifier FROM pg_control_system()), clock_ms())
    ON CONFLICT (name) DO UPDATE SET snapshot = excluded.snapshot, system_id = excluded.system_id, at = excluded.at
    WHERE f.system_id <> excluded.system_id OR pg_snapshot_xmin(f.snapshot) <= pg_snapshot_xmin(excluded.snapshot);
END $$;
