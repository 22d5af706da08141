-- dead_discard for all dead messages, of a channel, with an error LIKE p_error or of a group of dead_groups if given:
-- up to p_limit per call, with ids above p_after. Returns how many were deleted, and p_after for the next call; NULL:
-- there are no more.
CREATE OR REPLACE FUNCTION dead_discard_all (
    p_channel TEXT DEFAULT NULL, p_error TEXT DEFAULT NULL, p_after BIGINT DEFAULT 0, p_limit INT DEFAULT 1000,
    p_fingerprint TEXT DEFAULT NULL)
RETURNS TABLE (discarded BIGINT, next_after BIGINT) LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    v_ids BIGINT[];
BEGIN
    PERFORM unbound_check('dead_discard_all');
    PERFORM limit_check(p_limit, 100000);
    v_ids := dead_find(p_channel, p_error, COALESCE(p_after, 0), p_limit, NULL, p_fingerprint);
    RETURN QUERY
    SELECT COUNT(*) FILTER (WHERE x.result = 'discarded'), CASE WHEN cardinality(v_ids) = p_limit
        THEN v_ids[p_limit] END FROM dead_discard(v_ids) x;
END $$;
