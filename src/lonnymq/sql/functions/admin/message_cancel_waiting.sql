-- Messages that waited, and are in no place any more, end. The dispatcher is told how many fewer wait, and to look at
-- their channels again: they may have had slots, and their lines are shorter.
CREATE OR REPLACE FUNCTION message_cancel_waiting (p_endings ending[])
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF p_endings = '{}' THEN
        RETURN;
    END IF;
    PERFORM message_finish(p_endings, clock_ms());
    INSERT INTO notice (channel, n)
    SELECT e.channel, -COUNT(*) FROM unnest(p_endings) e GROUP BY e.channel
    UNION ALL
    SELECT '', 0 FROM queue q WHERE q.max_concurrency IS NOT NULL;
    PERFORM sleep_notify();
END $$;
