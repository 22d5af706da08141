-- Batches, the newest first: those with a name or a status, if given. p_after: the id of the last batch of the page
-- before.
CREATE OR REPLACE FUNCTION batch_list (
    p_name TEXT DEFAULT NULL, p_status TEXT DEFAULT NULL, p_after BIGINT DEFAULT NULL, p_limit INT DEFAULT 100)
RETURNS SETOF batch_status LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM unbound_check('batch_list');
    PERFORM limit_check(p_limit, 10000);
    IF p_status NOT IN ('open', 'closed', 'finished', 'cancelled') THEN
        PERFORM refuse('LM013', format('there is no status %s', quote_literal(p_status)),
            'Ask for open, closed, finished or cancelled, or give NULL for all.');
    END IF;
    RETURN QUERY
    SELECT * FROM batch_status_of(ARRAY(
        SELECT b.id
        FROM batch b
        CROSS JOIN LATERAL (
            SELECT c.finished_at FROM batch_count c WHERE c.batch_id = b.id ORDER BY c.turn DESC LIMIT 1) c
        WHERE b.id < COALESCE(p_after, 9223372036854775807) AND (p_name IS NULL OR b.name = p_name)
            AND (p_status IS NULL
                OR p_status = CASE WHEN b.cancelled_at IS NOT NULL THEN 'cancelled'
                    WHEN c.finished_at IS NOT NULL THEN 'finished' WHEN b.closed_at IS NOT NULL THEN 'closed'
                    ELSE 'open' END)
        ORDER BY b.id DESC LIMIT p_limit));
END $$;
