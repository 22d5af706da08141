-- The queue's settings.
CREATE OR REPLACE FUNCTION queue_get ()
RETURNS TABLE (content_max_bytes INT, lease_max_ms BIGINT, max_attempts INT)
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT content_max_bytes, lease_max_ms, max_attempts FROM queue
$$;
