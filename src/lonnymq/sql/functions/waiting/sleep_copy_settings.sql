-- Copy the settings that a create needs from queue to sleep, after they changed. Waits for a transaction that is
-- changing that row.
CREATE OR REPLACE FUNCTION sleep_copy_settings ()
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_id BIGINT;
BEGIN
    SELECT s.id INTO v_id FROM sleep s ORDER BY s.id DESC LIMIT 1 FOR UPDATE;
    UPDATE sleep s SET id = DEFAULT, is_special = q.has_sizes OR q.has_bound, content_max_bytes = q.content_max_bytes
    FROM queue q
    WHERE s.id = v_id AND (s.is_special <> (q.has_sizes OR q.has_bound) OR s.content_max_bytes <> q.content_max_bytes);
END $$;
