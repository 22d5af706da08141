-- dead_retry for all dead messages, of a channel or with an error LIKE p_error if given: up to p_limit per call, with
-- ids above p_after. Returns how many were retried, how many stayed dead (another message has their dedupe key, or
-- their channel is full), and p_after for the next call; NULL: there are no more.
CREATE OR REPLACE FUNCTION dead_retry_all (
    p_channel TEXT DEFAULT NULL, p_error TEXT DEFAULT NULL, p_dequeue_at BIGINT DEFAULT NULL,
        p_after BIGINT DEFAULT 0, p_limit INT DEFAULT 1000)
RETURNS TABLE (retried BIGINT, refused BIGINT, next_after BIGINT) LANGUAGE plpgsql SECURITY DEFINER
    SET search_path FROM CURRENT AS $$
DECLARE
    v_ids BIGINT[];
BEGIN
    PERFORM unbound_check('dead_retry_all');
    PERFORM limit_check(p_limit, 100000);
    v_ids := dead_find(p_channel, p_error, COALESCE(p_after, 0), p_limit);
    RETURN QUERY
    SELECT COUNT(*) FILTER (WHERE x.result = 'retried'), COUNT(*) FILTER (WHERE x.result IN ('duplicate', 'full')),
        CASE WHEN cardinality(v_ids) = p_limit THEN v_ids[p_limit] END
    FROM dead_retry(v_ids, p_dequeue_at) x;
END $$;
