-- One message, whether it waits, is leased or is dead; no row if there is none that the caller may see. attempts
-- includes the running one.
-- For a login that is bound to channels the id is searched in these channels only: ids of other channels cannot be told
-- from ids that do not exist, not even by counting the buffers that were read. The cost then grows with the number of
-- messages that wait in these channels.
CREATE OR REPLACE FUNCTION message_get (p_id BIGINT)
RETURNS TABLE (
    id BIGINT, channel TEXT, status TEXT, dequeue_at BIGINT, created_at BIGINT, first_dequeued_at BIGINT,
    dequeued_at BIGINT, lease_end_at BIGINT, dead_at BIGINT, attempts INT, max_attempts INT, consumer TEXT,
    error TEXT, past_errors JSONB, dedupe_key TEXT, is_cancelled BOOLEAN, headers JSONB, state BYTEA, content BYTEA,
    lane TEXT, priority INT, cost INT, unique_for_ms BIGINT,
    keep_result_ms BIGINT, batch_id BIGINT)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    v_bound TEXT[] := bound_channels();
    v_id BIGINT := p_id;                    -- NULL: the caller may not see it
    v_dead_id BIGINT := p_id;
    l RECORD;                               -- its lease, if it has one
BEGIN
    IF v_bound IS NULL THEN
        SELECT h.end_at, h.dequeued_at, h.consumer INTO l FROM message_leases(ARRAY[p_id]) h;
    ELSE
        SELECT x.id, x.end_at, x.dequeued_at, x.consumer INTO l FROM message_find(v_bound, NULL, p_id) x;
        v_id := l.id;
        -- Compared as pairs: so the planner must use the index that begins with the channel.
        v_dead_id := (
            SELECT d.id FROM unnest(v_bound) c (name)
            CROSS JOIN LATERAL (
                SELECT d.id FROM dead d
                WHERE (d.channel, d.id) >= (c.name, p_id) AND (d.channel, d.id) <= (c.name, p_id) OFFSET 0) d);
    END IF;
    RETURN QUERY
    SELECT m.id, m.channel, message_status(l.end_at IS NOT NULL, m.dequeue_at), m.dequeue_at, m.created_at,
        COALESCE(m.first_dequeued_at, m.dequeued_at, l.dequeued_at), COALESCE(l.dequeued_at, m.dequeued_at),
        l.end_at, NULL::BIGINT, m.attempts + (l.end_at IS NOT NULL)::INT, m.max_attempts,
        CASE WHEN l.end_at IS NULL THEN m.consumer ELSE l.consumer END, m.error, m.past_errors, m.dedupe_key,
        m.is_cancelled, m.headers, m.state, m.content, m.lane, m.priority::INT, m.cost, m.unique_for_ms,
        m.keep_result_ms, m.batch_id
    FROM message m WHERE m.id = v_id
    UNION ALL
    SELECT d.id, d.channel, 'dead', d.dequeue_at, d.created_at,
        COALESCE(d.first_dequeued_at, d.dequeued_at), d.dequeued_at, NULL::BIGINT, d.dead_at,
        d.attempts, d.max_attempts, d.consumer, d.error, d.past_errors, d.dedupe_key, FALSE,
        d.headers, d.state, d.content, d.lane, d.priority::INT, d.cost, d.unique_for_ms,
        d.keep_result_ms, d.batch_id
    FROM dead d WHERE d.id = v_dead_id;
END $$;
