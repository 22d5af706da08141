-- Why a token did not fit: 'lost' when the message is there under another one or none, or parked as dead; else 'not_found'.
CREATE OR REPLACE FUNCTION message_missed (p_id BIGINT)
RETURNS TEXT LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM message WHERE id = p_id) OR EXISTS (SELECT FROM dead WHERE id = p_id) THEN
        RETURN 'lost';
    END IF;
    RETURN 'not_found';
END $$;
