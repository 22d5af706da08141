-- The policies of channels, or with '' the queue's, have changed: who has a limit gets a new list of what uses it.
CREATE OR REPLACE FUNCTION slots_change (p_channels TEXT[], p_now BIGINT)
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_name TEXT;
    v_is_limited BOOLEAN;
BEGIN
    FOREACH v_name IN ARRAY p_channels LOOP
        v_is_limited := CASE WHEN v_name = '' THEN (SELECT q.max_concurrency IS NOT NULL FROM queue q)
            ELSE EXISTS (
                SELECT FROM channel c
                WHERE c.name = v_name AND (c.max_concurrency IS NOT NULL OR c.release_interval_ms > 0)) END;
        IF v_is_limited THEN
            PERFORM slots_open(v_name, p_now);
        ELSE
            DELETE FROM slots s WHERE s.channel = v_name;
        END IF;
    END LOOP;
END $$;
