-- Drop the history's partitions that are older than the queue keeps them, and what is that old in finished_other. Waits for nobody: a partition that
-- somebody reads is left for later; one that cannot be dropped, because finishers are at work, is emptied meanwhile.
-- Returns how many partitions and rows went.
CREATE OR REPLACE FUNCTION history_trim (p_now BIGINT, p_limit INT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    v_before BIGINT := history_keep_from(p_now);
    v_name TEXT;
    v_is_empty BOOLEAN;
    v_gone BIGINT;
BEGIN
    DELETE FROM finished_other f WHERE f.ctid = ANY (ARRAY(
        SELECT x.ctid FROM finished_other x WHERE x.finished_at < v_before LIMIT p_limit));
    GET DIAGNOSTICS v_gone = ROW_COUNT;
    FOR v_name IN SELECT h FROM history_old(v_before) h LOOP
        BEGIN
            LOCK TABLE ONLY finished IN ACCESS EXCLUSIVE MODE NOWAIT;
            EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE NOWAIT', v_name);
            PERFORM fold_lock_guard();
            EXECUTE format('DROP TABLE %I', v_name);
            v_gone := v_gone + 1;
            CONTINUE;
        EXCEPTION WHEN lock_not_available OR object_in_use OR dependent_objects_still_exist THEN
            NULL;                           -- then at least its rows
        END;
        BEGIN
            EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE NOWAIT', v_name);
            EXECUTE format('SELECT NOT EXISTS (SELECT FROM %I)', v_name) INTO v_is_empty;
            IF NOT v_is_empty THEN
                EXECUTE format('TRUNCATE %I', v_name);
                v_gone := v_gone + 1;
            END IF;
        EXCEPTION WHEN lock_not_available OR object_in_use OR dependent_objects_still_exist THEN
            NULL;                           -- somebody reads it: another time
        END;
    END LOOP;
    RETURN v_gone;
END $$;
