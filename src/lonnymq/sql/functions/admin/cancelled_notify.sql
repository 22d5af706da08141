-- Write notices for waiting messages that were cancelled, and have left their places: how many fewer messages wait, and
-- to look at their channels again, because the messages may have used slots, and the backlogs are shorter.
CREATE OR REPLACE FUNCTION cancelled_notify (p_endings ending[])
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF p_endings = '{}' THEN
        RETURN;
    END IF;
    INSERT INTO notice (channel, n)
    SELECT e.channel, -COUNT(*) FROM unnest(p_endings) e GROUP BY e.channel
    UNION ALL
    SELECT '', 0 FROM queue q WHERE q.max_concurrency IS NOT NULL;
    PERFORM sleep_notify();
END $$;
