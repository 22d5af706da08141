-- The message of a schedule, from its options by name: those of message_create, except for the ones that say when it is
-- due, those of dedupe keys, and batch_id. Refuses others (LM010). p_owner: what the message belongs to, for the
-- errors.
CREATE OR REPLACE FUNCTION schedule_message (
    p_channel TEXT, p_content BYTEA, p_options JSONB, p_owner TEXT DEFAULT 'schedule')
RETURNS new_message LANGUAGE plpgsql AS $$
DECLARE
    v_message new_message;
    v_unknown TEXT;
    v_text TEXT;
BEGIN
    IF jsonb_typeof(p_options) <> 'object' THEN
        PERFORM refuse('LM010', format('p_options is a JSON %s', jsonb_typeof(p_options)),
            'Give a JSON object, such as {"priority": 7}.');
    END IF;
    SELECT quote_literal(o.name) INTO v_unknown FROM jsonb_object_keys(p_options) o (name)
    WHERE o.name IN ('channel', 'content', 'dequeue_at', 'delay_ms', 'dedupe_key', 'unique_while', 'unique_for_ms',
        'batch_id')
        OR NOT EXISTS (
        SELECT FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
        WHERE c.reltype = CAST('new_message' AS REGTYPE) AND a.attname = o.name) LIMIT 1;
    IF v_unknown IS NOT NULL THEN
        PERFORM refuse('LM010', format('a %s has no option %s', p_owner, v_unknown),
            'Give options of message_create, except for those that say when it is due and those of dedupe keys.');
    END IF;
    -- jsonb_populate_record turns any JSON into text, and headers that are no object would become an array in
    -- schedule_fire.
    SELECT a.attname INTO v_text FROM pg_attribute a
    WHERE a.attrelid = CAST('new_message' AS REGCLASS) AND a.atttypid = CAST('text' AS REGTYPE)
        AND jsonb_typeof(p_options -> CAST(a.attname AS TEXT)) NOT IN ('string', 'null') LIMIT 1;
    IF v_text IS NOT NULL THEN
        PERFORM refuse('LM010', format('the %s is a JSON %s', v_text, jsonb_typeof(p_options -> v_text)),
            'Give a string.');
    ELSIF jsonb_typeof(p_options -> 'headers') NOT IN ('object', 'null') THEN
        PERFORM refuse('LM010', format('the headers are a JSON %s', jsonb_typeof(p_options -> 'headers')),
            'Give headers as a JSON object.');
    END IF;
    v_message := jsonb_populate_record(v_message, COALESCE(p_options, '{}'));
    v_message.channel := p_channel;
    v_message.content := p_content;
    RETURN v_message;
EXCEPTION WHEN data_exception THEN
    PERFORM refuse('LM010', format('an option of the %s has the wrong type: %s', p_owner, SQLERRM),
        'Give values as message_create takes them.');
END $$;
