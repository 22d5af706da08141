-- Open a batch. Messages that are created with its id belong to it, until batch_close. In the transaction that finishes
-- the last of them, the on_complete message is created; in the transaction in which the first of them dies, the
-- on_failure message. Each is created once. Both have the header "batch", an object with the batch's id, its name and
-- its counts. They do not count towards the max_size of their channel.
-- The options are those of message_create by name, except for the ones that say when a message is due
-- and those of dedupe keys.
-- The on_complete message may belong to another open batch (batch_id), which cannot finish before it.
-- Locks that other batch, if any, against being closed. Returns the id of the batch.
CREATE OR REPLACE FUNCTION batch_open (
    p_name TEXT,                            -- 1 to 255 bytes; need not be unique
    p_complete_channel TEXT DEFAULT NULL,
    p_complete_content BYTEA DEFAULT NULL,
    p_complete_options JSONB DEFAULT NULL,
    p_failure_channel TEXT DEFAULT NULL,
    p_failure_content BYTEA DEFAULT NULL,
    p_failure_options JSONB DEFAULT NULL
) RETURNS BIGINT LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    v_complete callback := callback_check('on_complete', p_complete_channel, p_complete_content, p_complete_options);
    v_failure callback := callback_check('on_failure', p_failure_channel, p_failure_content, p_failure_options);
    v_other BIGINT := (v_complete.options ->> 'batch_id')::BIGINT;
    v_id BIGINT;
BEGIN
    PERFORM unbound_check('batch_open');
    IF name_is_valid(p_name) IS NOT TRUE THEN
        PERFORM refuse('LM010',
            format('the name of the batch is %s', COALESCE(octet_length(p_name) || ' bytes long', 'NULL')),
            'Give a name of 1 to 255 bytes.');
    ELSIF v_failure.options ->> 'batch_id' IS NOT NULL THEN
        PERFORM refuse('LM010', 'the on_failure message is to belong to a batch',
            'Leave batch_id out: the message may never be created, and that batch would never finish.');
    END IF;
    IF v_other IS NOT NULL THEN
        PERFORM batch_join(ARRAY[v_other]);
        INSERT INTO batch_part (batch_id, n) VALUES (v_other, 1);
    END IF;
    INSERT INTO batch (created_at, name, on_complete, on_failure)
    VALUES (clock_ms(), p_name, v_complete, v_failure) RETURNING id INTO v_id;
    INSERT INTO batch_count (batch_id, turn) VALUES (v_id, nextval('turn'));
    RETURN v_id;
END $$;
