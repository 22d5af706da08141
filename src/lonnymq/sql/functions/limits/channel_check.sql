-- Refuse a text that cannot name a channel. p_place says which element of a batch it was.
CREATE OR REPLACE FUNCTION channel_check (p_channel TEXT, p_place TEXT DEFAULT '')
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF name_is_valid(p_channel) THEN
        RETURN;
    ELSIF p_channel IS NULL OR p_channel = '' THEN
        PERFORM refuse('LM001', 'a channel needs a name' || p_place, 'Give a name of 1 to 255 bytes.');
    ELSE
        PERFORM refuse('LM001', format('the channel name is %s bytes long%s', octet_length(p_channel), p_place),
            'Give a name of 1 to 255 bytes.');
    END IF;
END $$;
