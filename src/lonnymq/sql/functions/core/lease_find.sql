-- Which of the given pairs (id, token) are in a lease, with the values given for them: one row for the first mention of
-- each pair, in the order of ids. The caller must check that the message still has the generation of the lease. Locks
-- nothing. The given pairs and the stubs of the leases are matched by one sort, in which the stub comes first among
-- equals.
CREATE OR REPLACE FUNCTION lease_find (
    p_ids BIGINT[], p_tokens UUID[], p_ats BIGINT[] DEFAULT NULL, p_states BYTEA[] DEFAULT NULL,
    p_errors TEXT[] DEFAULT NULL, p_results given_result[] DEFAULT NULL)
RETURNS SETOF ending LANGUAGE sql STABLE AS $$
    WITH given AS MATERIALIZED (
        SELECT * FROM unnest(p_ids, p_tokens, p_ats, p_states, p_errors, p_results)
            WITH ORDINALITY u (id, token, at, state, error, content, content_type, keep_ms, ord))
    SELECT x.ord, x.id, x.generation, x.token, x.last_id, x.dequeued_at, x.consumer, x.is_limited,
        NULL, NULL, x.at, x.state, x.error,
        CASE WHEN p_results IS NOT NULL THEN ROW(x.content, x.content_type, x.keep_ms)::given_result END
    FROM (
        SELECT y.ord, y.id, y.token, y.at, y.state, y.error, y.content, y.content_type, y.keep_ms,
            ROW_NUMBER() OVER w AS nth,
            FIRST_VALUE(y.generation) OVER w AS generation, FIRST_VALUE(y.last_id) OVER w AS last_id,
            FIRST_VALUE(y.dequeued_at) OVER w AS dequeued_at, FIRST_VALUE(y.consumer) OVER w AS consumer,
            FIRST_VALUE(y.is_limited) OVER w AS is_limited
        FROM (
            SELECT g.id, g.token, g.ord, g.at, g.state, g.error, g.content, g.content_type, g.keep_ms,
                NULL::INT AS generation, NULL::BIGINT AS last_id, NULL::BIGINT AS dequeued_at,
                NULL::TEXT AS consumer, NULL::BOOLEAN AS is_limited
            FROM given g
            UNION ALL
            SELECT s.id, l.token, NULL, NULL, NULL, NULL, NULL, NULL, NULL, s.generation, l.last_id, l.dequeued_at,
                l.consumer, l.is_limited
            FROM (SELECT g.token, MIN(g.id) AS lo, MAX(g.id) AS hi FROM given g GROUP BY g.token) t
            CROSS JOIN LATERAL (
                SELECT * FROM lease l
                WHERE l.token = t.token AND l.last_id >= t.lo AND (l.stubs[1]).id <= t.hi OFFSET 0) l
            CROSS JOIN unnest(l.stubs) s) y
        WINDOW w AS (PARTITION BY y.id, y.token ORDER BY y.ord NULLS FIRST)
        ORDER BY y.id) x
    WHERE x.nth = 2 AND x.generation IS NOT NULL
$$;
