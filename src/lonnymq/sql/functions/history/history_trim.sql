-- Drop the history's partitions that are older than the queue keeps them and that all followers have read, and delete
-- such rows of finished_other. The caller has locked maintenance, where this records up to which transaction rows are
-- gone. Waits for no one: a partition that somebody reads is left for later, and one that cannot be dropped because
-- finishers are running is truncated. Returns how many partitions and rows were removed.
CREATE OR REPLACE FUNCTION history_trim (p_now BIGINT, p_limit INT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    v_before BIGINT := history_keep_from(p_now);
    v_name TEXT;
    v_gone BIGINT;
    v_last XID8;                            -- the last transaction of what was removed
    v_xid XID8;
BEGIN
    WITH gone AS (
        DELETE FROM finished_other f WHERE f.ctid = ANY (ARRAY(SELECT h
            FROM history_other_old(v_before, p_limit) h)) RETURNING f.xid)
    SELECT COUNT(*), MAX(g.xid) INTO v_gone, v_last FROM gone g;
    FOR v_name IN SELECT h FROM history_old(v_before) h LOOP
        BEGIN
            LOCK TABLE ONLY finished IN ACCESS EXCLUSIVE MODE NOWAIT;
            EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE NOWAIT', v_name);
            CONTINUE WHEN NOT history_is_read(v_name); -- rows were committed before it was locked
            EXECUTE format('SELECT MAX(xid) FROM %I', v_name) INTO v_xid;
            EXECUTE format('DROP TABLE %I', v_name);
            v_gone := v_gone + 1;
            v_last := GREATEST(v_last, v_xid);
            CONTINUE;
        EXCEPTION WHEN lock_not_available OR object_in_use OR dependent_objects_still_exist THEN
            NULL;                           -- delete its rows at least
        END;
        BEGIN
            EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE NOWAIT', v_name);
            EXECUTE format('SELECT MAX(xid) FROM %I', v_name) INTO v_xid;
            IF v_xid IS NOT NULL AND history_is_read(v_name) THEN
                EXECUTE format('TRUNCATE %I', v_name);
                v_gone := v_gone + 1;
                v_last := GREATEST(v_last, v_xid);
            END IF;
        EXCEPTION WHEN lock_not_available OR object_in_use OR dependent_objects_still_exist THEN
            NULL;                           -- in use: the next call tries again
        END;
    END LOOP;
    IF v_last IS NOT NULL THEN
        UPDATE maintenance SET trimmed_xid = GREATEST(trimmed_xid, v_last);
    END IF;
    RETURN v_gone;
END $$;
