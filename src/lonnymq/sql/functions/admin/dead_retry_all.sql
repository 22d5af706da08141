-- dead_retry for all dead messages, of a channel, with an error LIKE p_error or of a group of dead_groups if given: up
-- to p_limit per call, with ids above p_after. Returns how many were retried, how many stayed dead (another message has
-- their dedupe key, or their channel is full), and p_after for the next call; NULL: there are no more.
-- With p_spread_ms, each call makes its messages due evenly over that time from p_dequeue_at on. Calls with the same
-- p_dequeue_at are even together too: only the first begins at p_dequeue_at, and each of the others at random up to one
-- step later, so that their messages are not due at the same moments.
-- With p_dry_run, nothing changes and nothing is locked: retried is the number that would be tried.
CREATE OR REPLACE FUNCTION dead_retry_all (
    p_channel TEXT DEFAULT NULL, p_error TEXT DEFAULT NULL, p_dequeue_at BIGINT DEFAULT NULL,
    p_after BIGINT DEFAULT 0, p_limit INT DEFAULT 1000, p_fingerprint TEXT DEFAULT NULL, p_spread_ms BIGINT DEFAULT 0,
    p_dry_run BOOLEAN DEFAULT FALSE)
RETURNS TABLE (retried BIGINT, refused BIGINT, next_after BIGINT) LANGUAGE plpgsql SECURITY DEFINER
    SET search_path FROM CURRENT AS $$
DECLARE
    v_ids BIGINT[];
    v_next BIGINT;
    v_at BIGINT := p_dequeue_at;
BEGIN
    PERFORM unbound_check('dead_retry_all');
    PERFORM limit_check(p_limit, 100000);
    PERFORM time_check(p_dequeue_at);
    PERFORM spread_check(p_spread_ms);
    v_ids := dead_find(p_channel, p_error, COALESCE(p_after, 0), p_limit, NULL, p_fingerprint);
    v_next := CASE WHEN cardinality(v_ids) = p_limit THEN v_ids[p_limit] END;
    IF p_dry_run THEN
        RETURN QUERY SELECT cardinality(v_ids)::BIGINT, 0::BIGINT, v_next;
        RETURN;
    END IF;
    IF p_after > 0 AND p_spread_ms > 0 AND cardinality(v_ids) > 0 THEN
        v_at := COALESCE(p_dequeue_at, clock_ms()) + floor(random() * p_spread_ms / cardinality(v_ids))::BIGINT;
    END IF;
    RETURN QUERY
    SELECT COUNT(*) FILTER (WHERE x.result = 'retried'), COUNT(*) FILTER (WHERE x.result IN ('duplicate', 'full')),
        v_next
    FROM dead_retry(v_ids, v_at, p_spread_ms) x;
END $$;
