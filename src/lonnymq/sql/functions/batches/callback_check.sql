-- A callback from the parameters of batch_open; without a channel, NULL. Refuses one that could not be created.
CREATE OR REPLACE FUNCTION callback_check (p_what TEXT, p_channel TEXT, p_content BYTEA, p_options JSONB)
RETURNS callback LANGUAGE plpgsql AS $$
DECLARE
    v_callback callback := ROW(p_channel, p_content, p_options);
    v_message new_message;
    v_max INT := (SELECT q.content_max_bytes FROM queue q);
BEGIN
    IF num_nulls(p_channel, p_content, p_options) = 3 THEN
        RETURN NULL;
    END IF;
    v_message := callback_message(v_callback);
    PERFORM message_check(v_message, v_max, format(' (the %s message)', p_what));
    PERFORM lane_check(v_message.lane, format(' (the %s message)', p_what));
    RETURN v_callback;
END $$;
