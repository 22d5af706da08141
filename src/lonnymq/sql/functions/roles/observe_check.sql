-- Refuse to show a channel that the caller's login role is not bound to. NULL means all channels, and passes.
CREATE OR REPLACE FUNCTION observe_check (p_channel TEXT)
RETURNS VOID LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_bound TEXT[] := bound_channels();
BEGIN
    IF p_channel IS NOT NULL AND v_bound IS NOT NULL AND NOT p_channel = ANY (v_bound) THEN
        PERFORM bound_login_refuse('observe channel ' || quote_literal(p_channel),
            'It is bound to other channels; an administrator changes that with credential_bind.');
    END IF;
END $$;
