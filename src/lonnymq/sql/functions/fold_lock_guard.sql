-- The fold lock is everybody's: a transaction that took it and then idles is cut off after ten seconds, so that one
-- forgotten session cannot stop the queue. Holds for this transaction alone, and never lengthens a shorter setting.
CREATE OR REPLACE FUNCTION fold_lock_guard ()
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_ms INT := (SELECT setting FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout');
BEGIN
    IF v_ms = 0 OR v_ms > 10000 THEN
        PERFORM set_config('idle_in_transaction_session_timeout', '10s', TRUE);
    END IF;
END $$;
