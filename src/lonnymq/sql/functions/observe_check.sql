-- Refuse to show a channel that the caller's login role is not bound to. NULL stands for all channels.
CREATE OR REPLACE FUNCTION observe_check (p_channel TEXT)
RETURNS VOID LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF p_channel IS NOT NULL AND NOT channel_is_allowed(p_channel) THEN
        PERFORM refuse('LM012', format('role %I may not observe channel %s', session_user, quote_literal(p_channel)),
            'It is bound to other channels; an administrator changes that with credential_bind.');
    END IF;
END $$;
