-- The queue's settings. A limit of NULL means no limit. channel_...: what channels inherit. notify_channel: what
-- consumers LISTEN to.
CREATE OR REPLACE FUNCTION queue_get ()
RETURNS TABLE (
    content_max_bytes INT, lease_ms BIGINT, lease_max_ms BIGINT, max_attempts INT, max_concurrency INT,
    paused BOOLEAN,
    history BOOLEAN, history_content BOOLEAN, history_keep_ms BIGINT, batch_keep_ms BIGINT,
    audit_keep_ms BIGINT, notify BOOLEAN,
    channel_max_concurrency INT, channel_release_interval_us BIGINT, channel_burst INT, channel_max_size INT,
    notify_channel TEXT)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    RETURN QUERY
    SELECT q.content_max_bytes, q.lease_ms, q.lease_max_ms, q.max_attempts, q.max_concurrency, q.paused,
        q.history, q.history_content, q.history_keep_ms, q.batch_keep_ms, q.audit_keep_ms, q.notify,
        q.channel_max_concurrency, q.channel_release_interval_us, COALESCE(q.channel_burst, 1), q.channel_max_size,
        notify_channel()
    FROM queue q;
END $$;
