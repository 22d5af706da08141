-- As history_mark, for the policies: a number that identifies the past of this database, as far as a snapshot sees it.
-- It is made of the newest policy that the snapshot and the caller see. NULL: that row may no longer be kept.
CREATE OR REPLACE FUNCTION policy_mark (p_snapshot TEXT)
RETURNS BIGINT LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path FROM CURRENT SET plan_cache_mode TO force_generic_plan SET enable_seqscan TO off
    SET enable_bitmapscan TO off SET jit TO off AS $$
DECLARE
    v_snapshot PG_SNAPSHOT;
    v_last XID8;
    v_mark BIGINT;
    v_trimmed XID8 := (SELECT u.policies_xid FROM maintenance u);
BEGIN
    BEGIN
        v_snapshot := p_snapshot;
    EXCEPTION WHEN invalid_text_representation THEN
        NULL;                               -- refused below
    END;
    IF v_snapshot IS NULL THEN
        PERFORM refuse('LM010', 'the snapshot is not valid', 'Give a snapshot as history_bounds() shows it.');
    END IF;
    SELECT p.xid, hashtextextended(concat_ws(' ', p.xid, p.id, p.at), 0) & 9223372036854775807 INTO v_last, v_mark
    FROM policies p
    WHERE p.xid < pg_snapshot_xmax(v_snapshot) AND pg_visible_in_snapshot(p.xid, v_snapshot)
    ORDER BY p.xid DESC, p.id DESC LIMIT 1;
    -- A row that was deleted may have been newer than this one.
    RETURN CASE WHEN v_trimmed = '0' OR v_last > v_trimmed THEN COALESCE(v_mark, 0) END;
END $$;
