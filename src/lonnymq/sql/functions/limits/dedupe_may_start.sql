-- Part of a dequeue: whether a message may start that holds its key while it waits. FALSE while an open transaction
-- counts on it: a create that found the key and did not create a message (see dedupe_holds).
-- Usually it reads one row. If somebody has locked that row before, it tries to lock it, too, without waiting. That
-- lock is released at once, by an error that undoes it: otherwise creates with the key would wait for the dequeue's
-- transaction. From now on they see that the message is taken. The message may start while another one takes its key
-- over, which needs a stronger lock.
CREATE OR REPLACE FUNCTION dedupe_may_start (p_channel TEXT, p_key TEXT, p_id BIGINT)
RETURNS BOOLEAN LANGUAGE plpgsql AS $$
DECLARE
    d RECORD;
    v_may_start BOOLEAN;
BEGIN
    SELECT x.turn, x.xmax <> '0' AS was_locked INTO d FROM dedupe x
    WHERE x.channel = p_channel AND x.key = p_key AND x.message_id = p_id
    ORDER BY x.channel DESC, x.key DESC, x.turn DESC LIMIT 1;
    IF d.was_locked IS NOT TRUE THEN
        RETURN TRUE;
    END IF;
    BEGIN
        PERFORM FROM dedupe x WHERE x.channel = p_channel AND x.key = p_key AND x.turn = d.turn
        FOR NO KEY UPDATE SKIP LOCKED;
        v_may_start := FOUND;
        IF NOT v_may_start THEN
            PERFORM FROM dedupe x WHERE x.channel = p_channel AND x.key = p_key AND x.turn = d.turn
            FOR KEY SHARE SKIP LOCKED;
            v_may_start := NOT FOUND;
        END IF;
        RAISE SQLSTATE 'P0099';
    EXCEPTION WHEN SQLSTATE 'P0099' THEN
        RETURN v_may_start;
    END;
END $$;
