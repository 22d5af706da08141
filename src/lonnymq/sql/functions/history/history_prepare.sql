-- Make the history's partitions for today and the week to come, where they are missing. Waits for nobody: what cannot
-- be had at once is tried again. A day for which finished_other holds rows already stays there. Returns how many were
-- made.
CREATE OR REPLACE FUNCTION history_prepare (p_now BIGINT)
RETURNS INT LANGUAGE plpgsql AS $$
DECLARE
    v_from BIGINT;
    v_made INT := 0;
BEGIN
    FOR v_from IN SELECT h FROM history_missing(p_now) h LOOP
        BEGIN
            LOCK TABLE ONLY finished IN SHARE UPDATE EXCLUSIVE MODE NOWAIT;
            LOCK TABLE finished_other IN ACCESS EXCLUSIVE MODE NOWAIT;
            EXECUTE format('CREATE TABLE %I (LIKE finished INCLUDING ALL)', history_partition(v_from));
            PERFORM table_revoke_rights(history_partition(v_from));
            -- which LIKE does not copy
            EXECUTE format('ALTER TABLE %I REPLICA IDENTITY FULL', history_partition(v_from));
            EXECUTE format('ALTER TABLE finished ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)',
                history_partition(v_from), v_from, v_from + 86400000);
            v_made := v_made + 1;
        EXCEPTION WHEN lock_not_available OR check_violation THEN
            RETURN v_made;                  -- somebody reads or writes there: another time
        END;
    END LOOP;
    RETURN v_made;
END $$;
