-- message_complete for many: one row (id, result) each, in the order given. Locks the messages in the order of their ids,
-- so that two calls never wait for each other in a circle: the index is read for an array, which it sorts. The pairs are
-- checked behind a COALESCE, where the planner cannot make a join of it and read the table.
CREATE OR REPLACE FUNCTION message_complete_many (p_ids BIGINT[], p_tokens UUID[])
RETURNS TABLE (id BIGINT, result TEXT) LANGUAGE plpgsql
SET search_path FROM CURRENT SET plan_cache_mode TO force_generic_plan SET enable_seqscan TO off
SET enable_bitmapscan TO off SET jit TO off AS $$
#variable_conflict use_column
DECLARE
    v_done BIGINT[];
    v_tokens UUID[];
BEGIN
    PERFORM lengths_check(cardinality(p_ids), COALESCE(cardinality(p_tokens), 0));
    WITH done AS (
        DELETE FROM message m
        WHERE m.id = ANY (p_ids) AND COALESCE((m.id, m.token) IN (SELECT u.id, u.token FROM unnest(p_ids, p_tokens) u (id, token)), FALSE)
        RETURNING m.id, m.token, m.channel, m.slot),
    freed AS (
        INSERT INTO wake (channel) SELECT DISTINCT d.channel FROM done d WHERE d.slot)
    SELECT array_agg(d.id), array_agg(d.token) INTO v_done, v_tokens FROM done d;
    IF cardinality(v_done) = cardinality(p_ids) THEN
        RETURN QUERY SELECT u.id, 'completed' FROM unnest(p_ids) u (id);
        RETURN;
    END IF;
    -- As a sequence of single calls would have it: the first mention under the right token completes, those after it find nothing.
    RETURN QUERY
    SELECT x.id, CASE WHEN x.ord = x.done_ord THEN 'completed' WHEN x.ord > x.done_ord THEN 'not_found' WHEN x.ord < x.done_ord THEN 'lost'
        ELSE message_missed(x.id) END
    FROM (
        SELECT y.id, y.ord, MIN(y.ord) FILTER (WHERE y.token = y.done_token) OVER (PARTITION BY y.id) AS done_ord
        FROM (
            SELECT z.id, z.ord, z.token, MAX(z.token::TEXT) FILTER (WHERE z.ord IS NULL) OVER (PARTITION BY z.id)::UUID AS done_token
            FROM (
                SELECT u.id, u.token, u.ord FROM unnest(p_ids, p_tokens) WITH ORDINALITY u (id, token, ord)
                UNION ALL
                SELECT u.id, u.token, NULL FROM unnest(v_done, v_tokens) u (id, token)) z) y) x
    WHERE x.ord IS NOT NULL ORDER BY x.ord;
END $$;
