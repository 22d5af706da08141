-- Create the message of a callback, with the batch and its counts in the header "batch". Locks nothing: it ignores the
-- max_size of its channel, and has no dedupe key. It was checked when the batch was opened, and must not fail now,
-- whatever has changed: the message that is finished could not be, and a dispatch would fail again and again.
CREATE OR REPLACE FUNCTION callback_create (p callback, b batch, c batch_count)
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_message new_message := callback_message(p);
    v_now BIGINT := transaction_ms();
    v_id BIGINT;
BEGIN
    v_message.headers := COALESCE(v_message.headers, '{}') || jsonb_build_object('batch', jsonb_build_object(
        'id', b.id, 'name', b.name, 'total', batch_total(c), 'completed', c.completed, 'dead', c.dead,
        'cancelled', c.cancelled, 'failed_id', c.failed_id));
    INSERT INTO message OVERRIDING SYSTEM VALUE
    SELECT r.*
    FROM message_new(v_message, nextval('message_id_seq'), pg_current_xact_id(), v_now, v_now, FALSE) r
    RETURNING id INTO v_id;
    INSERT INTO notice (lo_id, hi_id, n) VALUES (v_id, v_id, 1);
    IF v_message.batch_id IS NOT NULL THEN
        INSERT INTO batch_part (batch_id, n, lo_id, hi_id) VALUES (v_message.batch_id, 0, v_id, v_id);
    END IF;
    PERFORM sleep_notify(v_now);
END $$;
