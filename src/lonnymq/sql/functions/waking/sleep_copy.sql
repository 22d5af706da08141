-- The queue's settings have changed: copy those that a create must know to where it reads them. Waits for who changes
-- that row at this moment.
CREATE OR REPLACE FUNCTION sleep_copy ()
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_id BIGINT;
BEGIN
    SELECT s.id INTO v_id FROM sleep s ORDER BY s.id DESC LIMIT 1 FOR UPDATE;
    UPDATE sleep s SET id = DEFAULT, is_special = q.has_sizes OR q.has_bound, content_max_bytes = q.content_max_bytes
    FROM queue q
    WHERE s.id = v_id AND (s.is_special <> (q.has_sizes OR q.has_bound) OR s.content_max_bytes <> q.content_max_bytes);
END $$;
