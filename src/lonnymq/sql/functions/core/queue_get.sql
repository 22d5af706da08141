-- The queue's settings. max_concurrency NULL: no limit. notify_channel: what consumers LISTEN to.
CREATE OR REPLACE FUNCTION queue_get ()
RETURNS TABLE (
    content_max_bytes INT, lease_ms BIGINT, lease_max_ms BIGINT, max_attempts INT, max_concurrency INT,
    paused BOOLEAN, dedupe_keep_ms BIGINT,
    history BOOLEAN, history_content BOOLEAN, history_keep_ms BIGINT, notify BOOLEAN, notify_channel TEXT)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    RETURN QUERY
    SELECT q.content_max_bytes, q.lease_ms, q.lease_max_ms, q.max_attempts, q.max_concurrency, q.paused,
        q.dedupe_keep_ms,
        q.history, q.history_content, q.history_keep_ms, q.notify, notify_channel()
    FROM queue q;
END $$;
