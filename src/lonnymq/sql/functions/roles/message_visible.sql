-- The messages that the caller may see, as the view messages shows them: those of the channels that its login role is
-- bound to, or all of them if it is not bound. p_leased: TRUE for leased ones, FALSE for waiting ones, NULL for both.
-- Without tokens: only the holder of a lease may know its token. The plan of a bound login shows this function and
-- nothing below it (ADR 18).
CREATE OR REPLACE FUNCTION message_visible (p_leased BOOLEAN DEFAULT NULL)
RETURNS TABLE (
    id BIGINT, channel TEXT, status TEXT, dequeue_at BIGINT, created_at BIGINT, first_dequeued_at BIGINT,
    dequeued_at BIGINT, lease_end_at BIGINT, attempts INT, max_attempts INT, consumer TEXT, error TEXT,
    past_errors JSONB, dedupe_key TEXT, is_cancelled BOOLEAN, headers JSONB, state BYTEA, content BYTEA,
    lane TEXT, priority INT, cost INT, batch_id BIGINT)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT m.id, m.channel, message_status(p.end_at IS NOT NULL, m.dequeue_at), m.dequeue_at, m.created_at,
        COALESCE(m.first_dequeued_at, m.dequeued_at, p.dequeued_at), COALESCE(p.dequeued_at, m.dequeued_at), p.end_at,
        m.attempts + (p.end_at IS NOT NULL)::INT, m.max_attempts,
        CASE WHEN p.end_at IS NULL THEN m.consumer ELSE p.consumer END,
        m.error, m.past_errors, m.dedupe_key, m.is_cancelled, m.headers, m.state, m.content,
        m.lane, m.priority::INT, m.cost, m.batch_id
    FROM message_find(bound_channels(), p_leased) p
    CROSS JOIN LATERAL (SELECT * FROM message m WHERE m.id = p.id AND m.generation = p.generation OFFSET 0) m;
END $$;
