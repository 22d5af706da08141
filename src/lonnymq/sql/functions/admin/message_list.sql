-- Messages with a status, of one channel and lane or of all (NULL), page by page; without their content, which
-- message_get shows. attempts includes the running one.
-- p_status: 'due' and 'scheduled', or 'waiting' for both, channel by channel in the order in which they are served;
-- 'leased', in the order in which their leases end; p_consumer: only those that this consumer has leased. Up to 10,000
-- messages that are not dispatched yet are listed. p_after: the cursor of the last row of the page before. For dead
-- messages use dead_list.
CREATE OR REPLACE FUNCTION message_list (
    p_channel TEXT DEFAULT NULL, p_status TEXT DEFAULT 'waiting', p_after TEXT DEFAULT NULL, p_limit INT DEFAULT 100,
    p_lane TEXT DEFAULT NULL, p_consumer TEXT DEFAULT NULL)
RETURNS TABLE (
    id BIGINT, channel TEXT, status TEXT, dequeue_at BIGINT, created_at BIGINT, lease_end_at BIGINT, attempts INT,
    max_attempts INT, consumer TEXT, error TEXT, dedupe_key TEXT, is_cancelled BOOLEAN, headers JSONB,
    content_bytes INT,
    cursor TEXT, lane TEXT, priority INT, cost INT)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    c RECORD;                               -- the position at which the page begins
BEGIN
    PERFORM limit_check(p_limit, 10000);
    PERFORM list_check(p_channel);
    IF p_status IS NULL OR p_status NOT IN ('waiting', 'due', 'scheduled', 'leased') THEN
        PERFORM refuse('LM013', format('there is no status %s', COALESCE(quote_literal(p_status), 'NULL')),
            'Ask for waiting, due, scheduled or leased; dead_list lists dead messages.');
    ELSIF p_consumer IS NOT NULL AND p_status <> 'leased' THEN
        PERFORM refuse('LM013', format('%s messages cannot be listed by consumer', p_status),
            'Ask for leased messages, or leave p_consumer out.');
    END IF;
    SELECT * INTO c FROM cursor_read(p_after);
    RETURN QUERY
    SELECT m.id, m.channel, message_status(p_status = 'leased', m.dequeue_at), m.dequeue_at, m.created_at,
        e.end_at, m.attempts + (p_status = 'leased')::INT,
        m.max_attempts, CASE WHEN p_status = 'leased' THEN e.consumer ELSE m.consumer END, m.error, m.dedupe_key,
        m.is_cancelled, m.headers, octet_length(m.content),
        cursor_write(m.channel, e.rank, COALESCE(e.end_at, e.at), m.id),
        m.lane, m.priority::INT, m.cost
    FROM (
        SELECT w.id, w.generation, w.rank, w.at, NULL::BIGINT AS end_at, NULL AS consumer, w.ord
        FROM list_waiting(p_channel, p_status, c.channel, c.rank, c.at, c.id, p_limit, p_lane)
            WITH ORDINALITY w (id, generation, rank, at, cost, lane, channel, ord)
        WHERE p_status <> 'leased'
        UNION ALL
        SELECT l.id, l.generation, 0::SMALLINT, NULL, l.end_at, l.consumer, l.ord
        FROM list_leased(p_channel, c.at, c.id, p_limit, p_lane, p_consumer)
            WITH ORDINALITY l (id, generation, end_at, consumer, ord)
        WHERE p_status = 'leased') e
    CROSS JOIN LATERAL (SELECT * FROM message m WHERE m.id = e.id AND m.generation = e.generation OFFSET 0) m
    ORDER BY e.ord;
END $$;
