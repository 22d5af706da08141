-- The message of a callback. Refuses options that a callback cannot have (LM010).
CREATE OR REPLACE FUNCTION callback_message (p callback)
RETURNS new_message LANGUAGE plpgsql AS $$
DECLARE
    v_message new_message := schedule_message(p.channel, p.content,
        CASE WHEN jsonb_typeof(p.options) = 'object' THEN p.options - 'batch_id' ELSE p.options END, 'callback');
BEGIN
    IF p.options ->> 'batch_id' !~ '^[0-9]{1,18}$' THEN
        PERFORM refuse('LM010', format('batch_id %s is not the id of a batch', p.options -> 'batch_id'),
            'Give the id that batch_open returned.');
    END IF;
    v_message.batch_id := (p.options ->> 'batch_id')::BIGINT;
    RETURN v_message;
END $$;
