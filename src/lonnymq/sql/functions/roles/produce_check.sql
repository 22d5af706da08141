-- Refuse to produce to channels that the caller's login role is not bound to.
CREATE OR REPLACE FUNCTION produce_check (p_channels TEXT[])
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_bound TEXT[] := bound_channels();
    v_channel TEXT;
BEGIN
    IF v_bound IS NOT NULL THEN
        SELECT c INTO v_channel FROM unnest(p_channels) c WHERE (c = ANY (v_bound)) IS NOT TRUE LIMIT 1;
        IF FOUND THEN
            PERFORM bound_login_refuse('produce to channel ' || COALESCE(quote_literal(v_channel), 'NULL'),
                'It is bound to other channels; an administrator changes that with credential_bind.');
        END IF;
    END IF;
END $$;
