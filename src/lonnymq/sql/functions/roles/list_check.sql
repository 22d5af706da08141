-- Refuse to list what the caller's login role may not see: if it is bound to channels, it must name one of them.
CREATE OR REPLACE FUNCTION list_check (p_channel TEXT)
RETURNS VOID LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF p_channel IS NULL AND bound_channels() IS NOT NULL THEN
        PERFORM bound_login_refuse('observe all channels', 'It is bound to channels: name one of them.');
    END IF;
    PERFORM observe_check(p_channel);
END $$;
