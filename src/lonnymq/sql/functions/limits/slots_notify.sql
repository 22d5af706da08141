-- Write notices that slots of these channels, and of the whole queue if that has a limit, may be free, so that the
-- dispatcher looks at them.
CREATE OR REPLACE FUNCTION slots_notify (p_channels TEXT[])
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF p_channels = '{}' THEN
        RETURN;
    END IF;
    INSERT INTO notice (channel)
    SELECT c FROM unnest(p_channels) c
    UNION ALL
    SELECT '' FROM queue q WHERE q.max_concurrency IS NOT NULL;
    PERFORM sleep_notify();
END $$;
