-- One message, whether it waits, is leased or is dead; no row when there is none, or none that the caller may see.
CREATE OR REPLACE FUNCTION message_get (p_id BIGINT)
RETURNS TABLE (
    id BIGINT, channel TEXT, status TEXT, dequeue_at BIGINT, created_at BIGINT, first_dequeued_at BIGINT, dequeued_at BIGINT, lease_end_at BIGINT,
    dead_at BIGINT, attempts INT, max_attempts INT, consumer TEXT, error TEXT, past_errors JSONB, dedupe_key TEXT, is_cancelled BOOLEAN,
    headers JSONB, state BYTEA, content BYTEA)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan TO off SET jit TO off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT m.id, m.channel, message_status(m.leased, m.dequeue_at), m.dequeue_at, m.created_at, COALESCE(m.first_dequeued_at, m.dequeued_at),
        m.dequeued_at, m.lease_end_at, NULL::BIGINT, m.attempts, m.max_attempts, m.consumer, m.error, m.past_errors, m.dedupe_key, m.is_cancelled,
        m.headers, m.state, m.content
    FROM message m WHERE m.id = p_id AND channel_is_allowed(m.channel);
    IF NOT FOUND THEN
        RETURN QUERY
        SELECT d.id, d.channel, 'dead', d.dequeue_at, d.created_at, COALESCE(d.first_dequeued_at, d.dequeued_at),
            d.dequeued_at, NULL::BIGINT, d.dead_at, d.attempts, d.max_attempts, d.consumer, d.error, d.past_errors, d.dedupe_key, FALSE,
            d.headers, d.state, d.content
        FROM dead d WHERE d.id = p_id AND channel_is_allowed(d.channel);
    END IF;
END $$;
