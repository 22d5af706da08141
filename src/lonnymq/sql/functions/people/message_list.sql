-- Messages of a status, of a channel or (NULL) of all, page by page; without their content, which message_get shows.
-- p_status: 'due' and 'scheduled', or 'waiting' for both, in the order they are served, channel by channel; 'leased', in the order their leases end.
-- p_after: the cursor of the last row of the page before. Dead ones: dead_list.
CREATE OR REPLACE FUNCTION message_list (
    p_channel TEXT DEFAULT NULL, p_status TEXT DEFAULT 'waiting', p_after TEXT DEFAULT NULL, p_limit INT DEFAULT 100)
RETURNS TABLE (
    id BIGINT, channel TEXT, status TEXT, dequeue_at BIGINT, created_at BIGINT, lease_end_at BIGINT, attempts INT, max_attempts INT, consumer TEXT,
    error TEXT, dedupe_key TEXT, is_cancelled BOOLEAN, headers JSONB, content_bytes INT, cursor TEXT)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path FROM CURRENT SET plan_cache_mode TO force_generic_plan SET enable_seqscan TO off SET enable_bitmapscan TO off SET jit TO off AS $$
#variable_conflict use_column
DECLARE
    v_now BIGINT := clock_ms();
    v_from BIGINT := CASE WHEN p_status = 'scheduled' THEN v_now + 1 ELSE -9223372036854775808 END;
    v_to BIGINT := CASE WHEN p_status = 'due' THEN v_now ELSE 9223372036854775807 END;
    c RECORD;
BEGIN
    PERFORM limit_check(p_limit, 10000);
    PERFORM list_check(p_channel);
    IF p_status IS NULL OR p_status NOT IN ('waiting', 'due', 'scheduled', 'leased') THEN
        PERFORM refuse('LM013', format('there is no status %s', COALESCE(quote_literal(p_status), 'NULL')),
            'Ask for waiting, due, scheduled or leased; dead_list lists the dead.');
    END IF;
    SELECT * INTO c FROM cursor_read(p_after);
    IF p_status = 'leased' AND p_channel IS NOT NULL THEN
        RETURN QUERY
        SELECT m.id, m.channel, 'leased', m.dequeue_at, m.created_at, m.lease_end_at, m.attempts, m.max_attempts, m.consumer, m.error, m.dedupe_key,
            m.is_cancelled, m.headers, octet_length(m.content), cursor_write(m.channel, m.lease_end_at, m.id)
        FROM message m
        WHERE m.leased::INT = 1 AND m.channel = p_channel AND (m.lease_end_at, m.id) > (c.at, c.id)
        ORDER BY m.channel, m.lease_end_at, m.id LIMIT p_limit;
    ELSIF p_status = 'leased' THEN
        RETURN QUERY
        SELECT m.id, m.channel, 'leased', m.dequeue_at, m.created_at, m.lease_end_at, m.attempts, m.max_attempts, m.consumer, m.error, m.dedupe_key,
            m.is_cancelled, m.headers, octet_length(m.content), cursor_write(m.channel, m.lease_end_at, m.id)
        FROM message m
        WHERE m.leased AND (m.lease_end_at, m.id) > (c.at, c.id)
        ORDER BY m.lease_end_at, m.id LIMIT p_limit;
    ELSIF p_channel IS NOT NULL THEN
        RETURN QUERY
        SELECT m.id, m.channel, message_status(FALSE, m.dequeue_at), m.dequeue_at, m.created_at, NULL::BIGINT, m.attempts, m.max_attempts, m.consumer,
            m.error, m.dedupe_key, FALSE, m.headers, octet_length(m.content), cursor_write(m.channel, m.dequeue_at, m.id)
        FROM message m
        WHERE NOT m.leased AND m.channel = p_channel AND (m.dequeue_at, m.id) > (c.at, c.id) AND m.dequeue_at BETWEEN v_from AND v_to
        ORDER BY m.channel, m.dequeue_at, m.id LIMIT p_limit;
    ELSE
        RETURN QUERY
        SELECT m.id, m.channel, message_status(FALSE, m.dequeue_at), m.dequeue_at, m.created_at, NULL::BIGINT, m.attempts, m.max_attempts, m.consumer,
            m.error, m.dedupe_key, FALSE, m.headers, octet_length(m.content), cursor_write(m.channel, m.dequeue_at, m.id)
        FROM message m
        WHERE NOT m.leased AND (m.channel, m.dequeue_at, m.id) > (c.channel, c.at, c.id) AND m.dequeue_at BETWEEN v_from AND v_to
        ORDER BY m.channel, m.dequeue_at, m.id LIMIT p_limit;
    END IF;
END $$;
