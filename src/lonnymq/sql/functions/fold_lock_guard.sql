-- The fold lock is everybody's: a transaction that took it and then idles is cut off after ten seconds, so that one
-- forgotten session cannot stop the queue. Holds for this transaction alone, and never lengthens a shorter setting.
CREATE OR REPLACE FUNCTION fold_lock_guard ()
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_set INTERVAL := current_setting('idle_in_transaction_session_timeout');
BEGIN
    IF v_set = INTERVAL '0' OR v_set > INTERVAL '10s' THEN
        PERFORM set_config('idle_in_transaction_session_timeout', '10s', TRUE);
    END IF;
END $$;
