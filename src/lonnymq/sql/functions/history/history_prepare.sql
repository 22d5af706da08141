-- Create the missing partitions of the history for today and the next seven days. Waits for no one: if a lock is not
-- free, the next call tries again. A day of which finished_other already has rows gets no partition. Returns how many
-- were created.
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
            -- LIKE does not copy this.
            EXECUTE format('ALTER TABLE %I REPLICA IDENTITY FULL', history_partition(v_from));
            EXECUTE format('ALTER TABLE finished ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)',
                history_partition(v_from), v_from, v_from + 86400000);
            v_made := v_made + 1;
        EXCEPTION WHEN lock_not_available OR check_violation THEN
            RETURN v_made;                  -- in use: the next call tries again
        END;
    END LOOP;
    RETURN v_made;
END $$;
