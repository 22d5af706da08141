-- Write who is about to do what, and return the id of the row. Commit it before the action, so that it stays if the
-- action fails; then call audit_end. Locks nothing.
CREATE OR REPLACE FUNCTION audit_begin (
    p_who TEXT, p_action TEXT, p_channel TEXT DEFAULT NULL, p_target TEXT DEFAULT NULL, p_details JSONB DEFAULT NULL)
RETURNS BIGINT LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    v_id BIGINT;
BEGIN
    PERFORM unbound_check('audit_begin');
    PERFORM audit_check('who', p_who, 200);
    PERFORM audit_check('action', p_action, 200);
    IF p_channel IS NOT NULL THEN
        PERFORM channel_check(p_channel);
    END IF;
    IF p_target IS NOT NULL THEN
        PERFORM audit_check('target', p_target, 1000);
    END IF;
    IF jsonb_typeof(p_details) <> 'object' THEN
        PERFORM refuse('LM010', format('details is a JSON %s', jsonb_typeof(p_details)), 'Give a JSON object.');
    ELSIF octet_length(p_details::TEXT) > 8192 THEN
        PERFORM refuse('LM010', format('details is %s bytes long', octet_length(p_details::TEXT)),
            'Give at most 8,192 bytes.');
    END IF;
    INSERT INTO audit (at, who, action, channel, target, details)
    VALUES (clock_ms(), p_who, p_action, p_channel, p_target, COALESCE(p_details, '{}'))
    RETURNING id INTO v_id;
    RETURN v_id;
END $$;
