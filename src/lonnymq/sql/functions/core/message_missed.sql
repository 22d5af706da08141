-- Why a call did nothing: 'cancelled' when the caller holds the message and it is to be given up; 'lost' when it is there under another token
-- or none, or parked as dead; else 'not_found'.
CREATE OR REPLACE FUNCTION message_missed (p_id BIGINT, p_token UUID)
RETURNS TEXT LANGUAGE plpgsql AS $$
DECLARE
    v_is_cancelled BOOLEAN;
BEGIN
    IF bound_channels() IS NOT NULL THEN
        RETURN 'not_found';                 -- who may not consume learns nothing of what there is
    END IF;
    SELECT is_cancelled AND token = p_token INTO v_is_cancelled FROM message WHERE id = p_id;
    IF FOUND THEN
        RETURN CASE WHEN v_is_cancelled THEN 'cancelled' ELSE 'lost' END;
    ELSIF EXISTS (SELECT FROM dead WHERE id = p_id) THEN
        RETURN 'lost';
    END IF;
    RETURN 'not_found';
END $$;
