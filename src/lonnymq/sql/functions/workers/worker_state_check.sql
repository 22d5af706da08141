-- Refuse a state that a worker cannot be in.
CREATE OR REPLACE FUNCTION worker_state_check (p_state TEXT)
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF (p_state IN ('serving', 'paused', 'draining')) IS NOT TRUE THEN
        PERFORM refuse('LM010', format('a worker cannot be %s', COALESCE(quote_literal(p_state), 'NULL')),
            'Give serving, paused or draining.');
    END IF;
END $$;
