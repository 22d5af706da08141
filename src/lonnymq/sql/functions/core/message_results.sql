-- What a call did for each pair (id, token) that it was given, in that order, as a sequence of single calls would
-- answer: the first mention under the right token did it, a mention before that had the wrong token, one after it
-- finds what is left.
CREATE OR REPLACE FUNCTION message_results (p_ids BIGINT[], p_tokens UUID[], p_endings ending[])
RETURNS TABLE (id BIGINT, result TEXT) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF cardinality(p_endings) = cardinality(p_ids) THEN
        RETURN QUERY SELECT e.id, COALESCE(e.outcome, 'retried') FROM unnest(p_endings) e ORDER BY e.ord;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT x.id, CASE WHEN x.result IS NOT NULL THEN x.result WHEN x.ord < x.done_ord THEN 'lost'
        ELSE message_miss_reason(x.id, x.token) END
    FROM (
        SELECT z.*, MIN(z.ord) FILTER (WHERE z.result IS NOT NULL) OVER (PARTITION BY z.id) AS done_ord
        FROM (
            SELECT y.ord, MAX(y.id) AS id, MAX(y.token::TEXT)::UUID AS token, MAX(y.result) AS result
            FROM (
                SELECT u.ord, u.id, u.token, NULL AS result
                FROM unnest(p_ids, p_tokens) WITH ORDINALITY u (id, token, ord)
                UNION ALL
                SELECT e.ord, NULL, NULL, COALESCE(e.outcome, 'retried') FROM unnest(p_endings) e) y
            GROUP BY y.ord) z) x
    ORDER BY x.ord;
END $$;
