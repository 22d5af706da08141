-- The results of a batch call: one row per pair (id, token), in the order given, with what single calls in that order
-- would return. p_done: what the call did, one element per message that the caller held; an outcome of NULL is
-- 'retried'. With p_once a message is done at its first mention under the right token: earlier mentions had a wrong
-- token ('lost'), later ones find what is left of it. Without p_once every mention under the right token succeeds.
-- at: the time in p_done. Locks nothing. The given pairs and p_done are matched by one sort, in which the element of
-- p_done comes first.
CREATE OR REPLACE FUNCTION message_results (
    p_ids BIGINT[], p_tokens UUID[], p_done ending[], p_once BOOLEAN DEFAULT TRUE)
RETURNS TABLE (id BIGINT, result TEXT, at BIGINT) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF cardinality(p_done) = cardinality(p_ids) AND (p_done[1]).ord IS NOT NULL THEN -- all were done: no need to sort
        RETURN QUERY SELECT d.id, COALESCE(d.outcome, 'retried'), d.at FROM unnest(p_done) d ORDER BY d.ord;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT x.id, CASE WHEN x.is_done THEN x.result WHEN p_once AND x.ord < x.done_ord THEN 'lost'
        ELSE message_miss_reason(x.id, x.token) END, CASE WHEN x.is_done THEN x.at END
    FROM (
        SELECT z.*, MIN(z.ord) FILTER (WHERE z.is_done) OVER (PARTITION BY z.id) AS done_ord
        FROM (
            SELECT y.ord, y.id, y.token, FIRST_VALUE(y.result) OVER w AS result, FIRST_VALUE(y.at) OVER w AS at,
                FIRST_VALUE(y.result) OVER w IS NOT NULL AND (NOT p_once OR ROW_NUMBER() OVER w = 2) AS is_done
            FROM (
                SELECT u.ord, u.id, u.token, NULL AS result, NULL::BIGINT AS at
                FROM unnest(p_ids, p_tokens) WITH ORDINALITY u (id, token, ord)
                UNION ALL
                SELECT NULL, d.id, d.token, COALESCE(d.outcome, 'retried'), d.at FROM unnest(p_done) d) y
            WINDOW w AS (PARTITION BY y.id, y.token ORDER BY y.ord NULLS FIRST)) z
        WHERE z.ord IS NOT NULL) x
    ORDER BY x.ord;
END $$;
