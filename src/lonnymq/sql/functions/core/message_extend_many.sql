-- message_extend for many, each with its token or all with one: one row (id, result, lease_end_at) each, in the order given. What is
-- cancelled is not extended. Locks the messages in the order of their ids. The new ends are appended as a wake: a sweep may have passed them by the time this
-- commits.
CREATE OR REPLACE FUNCTION message_extend_many (p_ids BIGINT[], p_tokens UUID[], p_lease_ms BIGINT, p_states BYTEA[] DEFAULT NULL)
RETURNS TABLE (id BIGINT, result TEXT, lease_end_at BIGINT) LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET plan_cache_mode TO force_generic_plan SET enable_seqscan TO off
SET enable_bitmapscan TO off SET jit TO off AS $$
#variable_conflict use_column
DECLARE
    v_ids BIGINT[];
    v_tokens UUID[];
    v_ends BIGINT[];
    v_end BIGINT;
BEGIN
    IF cardinality(p_tokens) = 1 AND cardinality(p_ids) > 1 THEN -- of one dequeue: the same for all
        p_tokens := array_fill((SELECT u FROM unnest(p_tokens) u), ARRAY[cardinality(p_ids)]);
    END IF;
    PERFORM lengths_check(cardinality(p_ids), COALESCE(cardinality(p_tokens), 0), cardinality(p_states));
    PERFORM lease_check(p_lease_ms);
    PERFORM state_check(state) FROM unnest(p_states) u (state);
    v_end := clock_ms() + p_lease_ms;
    WITH longer AS (
        UPDATE message m
        SET lease_end_at = GREATEST(m.lease_end_at, v_end),
            state = CASE WHEN array_remove(p_states, NULL) <> '{}' THEN COALESCE(
                (SELECT u.state FROM unnest(p_ids, p_tokens, p_states) WITH ORDINALITY u (id, token, state, ord)
                 WHERE (u.id, u.token) = (m.id, m.token) AND u.state IS NOT NULL ORDER BY u.ord DESC LIMIT 1), m.state) ELSE m.state END
        WHERE m.id = ANY (p_ids) AND COALESCE((m.id, m.token) IN (SELECT u.id, u.token FROM unnest(p_ids, p_tokens) u (id, token)), FALSE)
            AND NOT m.is_cancelled
        RETURNING m.id, m.token, m.lease_end_at)
    SELECT array_agg(l.id), array_agg(l.token), array_agg(l.lease_end_at) INTO v_ids, v_tokens, v_ends FROM longer l;
    IF v_ids IS NOT NULL THEN
        INSERT INTO wake (lo_at, hi_at) SELECT MIN(e), MAX(e) FROM unnest(v_ends) e;
    END IF;
    RETURN QUERY
    SELECT x.id, CASE WHEN x.token = x.my_token THEN 'extended' ELSE message_missed(x.id, x.token) END,
        CASE WHEN x.token = x.my_token THEN x.my_end END
    FROM (
        SELECT z.id, z.ord, z.token, MAX(z.my_end) OVER same AS my_end,
            MAX(z.token::TEXT) FILTER (WHERE z.ord IS NULL) OVER same::UUID AS my_token
        FROM (
            SELECT u.id, u.token, u.ord, NULL::BIGINT AS my_end FROM unnest(p_ids, p_tokens) WITH ORDINALITY u (id, token, ord)
            UNION ALL
            SELECT u.id, u.token, NULL, u.e FROM unnest(v_ids, v_tokens, v_ends) u (id, token, e)) z
        WINDOW same AS (PARTITION BY z.id)) x
    WHERE x.ord IS NOT NULL ORDER BY x.ord;
END $$;
