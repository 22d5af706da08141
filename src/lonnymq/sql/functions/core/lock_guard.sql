-- The caller's transaction holds a lock that everybody needs, and has done its work under it: from now on it has five
-- seconds to end. If it stays idle or busy for longer it is aborted, so that one session cannot stop the queue. It
-- cannot be prepared either (PREPARE TRANSACTION).
-- The settings hold for this transaction (or until the savepoint is rolled back, which also frees the lock), and never
-- lengthen a shorter timeout. PostgreSQL 17 and newer end the session five seconds after this call. Older versions end
-- it when it idles for five seconds, and cancel a later statement that takes longer. Newer versions get these two
-- settings too, because an error that the caller handles with a savepoint stops the timer of transaction_timeout for
-- good; they apply only where they are shorter.
CREATE OR REPLACE FUNCTION lock_guard ()
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_name TEXT;
    v_text TEXT;
    v_most INTERVAL := '5s';
BEGIN
    FOREACH v_name IN ARRAY '{transaction_timeout, idle_in_transaction_session_timeout, statement_timeout}'::TEXT[] LOOP
        v_text := current_setting(v_name, TRUE);  -- NULL: this version has no such setting
        IF v_text = '0' OR v_text::INTERVAL > v_most THEN
            IF v_text <> '0' THEN
                v_text := set_config(v_name, '0', TRUE); -- a running timer is not restarted
            END IF;
            v_text := set_config(v_name, (EXTRACT(EPOCH FROM v_most) * 1000)::INT || 'ms', TRUE);
        END IF;
        IF v_name = 'transaction_timeout' AND v_text IS NOT NULL THEN
            v_most := v_text::INTERVAL * 0.8;
        END IF;
    END LOOP;
    -- PostgreSQL refuses to prepare a transaction that has used NOTIFY. Nobody listens to this channel.
    IF current_setting('max_prepared_transactions') <> '0' THEN
        PERFORM pg_notify('lonnymq_not_to_be_prepared', '');
    END IF;
END $$;
