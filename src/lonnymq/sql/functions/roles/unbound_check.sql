-- Refuse a caller whose login role is bound to channels: such a login may only produce and observe.
CREATE OR REPLACE FUNCTION unbound_check (p_call TEXT)
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF bound_channels() IS NOT NULL THEN
        PERFORM bound_login_refuse('call ' || p_call,
            'It is bound to channels, and may only produce to and observe these. Use another login.');
    END IF;
END $$;
