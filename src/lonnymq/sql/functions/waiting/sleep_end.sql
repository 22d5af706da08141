-- Mark that no consumer sleeps, and notify those that do: they will register again. Does nothing if the row is locked.
CREATE OR REPLACE FUNCTION sleep_end ()
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF NOT (SELECT s.is_asleep FROM sleep s ORDER BY s.id DESC LIMIT 1) THEN
        RETURN;
    END IF;
    UPDATE sleep SET id = DEFAULT, is_asleep = FALSE
    WHERE id = (SELECT s.id FROM sleep s WHERE s.id = (SELECT MAX(x.id) FROM sleep x)
        AND s.is_asleep FOR UPDATE SKIP LOCKED);
    IF FOUND THEN
        PERFORM pg_notify(notify_channel(), '');
    END IF;
END $$;
