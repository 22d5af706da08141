-- Refuse a state that is larger than the queue allows content to be.
CREATE OR REPLACE FUNCTION state_check (p_state BYTEA)
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_max INT := (SELECT content_max_bytes FROM queue);
BEGIN
    IF octet_length(p_state) > v_max THEN
        PERFORM refuse('LM010', format('the state is %s bytes long', octet_length(p_state)),
            format('At most %s bytes are allowed, as for content.', v_max));
    END IF;
END $$;
