-- Finish waiting messages that message_withdraw has taken out of their places. Writes notices of how many fewer
-- messages wait, and to look at their channels again: the messages may have used slots, and the backlogs are shorter.
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
