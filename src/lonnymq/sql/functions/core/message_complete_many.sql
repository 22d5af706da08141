-- message_complete for many, each with its token or all with one: one row (id, result) each, in the order given. Locks the messages
-- in the order of their ids, so that two calls never wait for each other in a circle: the index is read for an array, which it sorts. The pairs are
-- checked behind a CASE, where the planner cannot make a join of it and read the table.
CREATE OR REPLACE FUNCTION message_complete_many (p_ids BIGINT[], p_tokens UUID[])
RETURNS TABLE (id BIGINT, result TEXT) LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET plan_cache_mode TO force_generic_plan SET enable_seqscan TO off
SET enable_bitmapscan TO off SET jit TO off AS $$
#variable_conflict use_column
DECLARE
    v_tids TID[];
    v_outcomes TEXT[];
    v_done BIGINT[];
    v_tokens UUID[];
    v_cancelled BIGINT[];
    v_token UUID := CASE WHEN cardinality(p_tokens) = 1 THEN (SELECT u FROM unnest(p_tokens) u) END; -- if it is the same for all
    v_special JSONB;                        -- those with a slot, a size or a key to leave
BEGIN
    IF cardinality(p_tokens) = 1 AND cardinality(p_ids) > 1 THEN -- of one dequeue: the same for all
        p_tokens := array_fill((SELECT u FROM unnest(p_tokens) u), ARRAY[cardinality(p_ids)]);
    END IF;
    PERFORM lengths_check(cardinality(p_ids), COALESCE(cardinality(p_tokens), 0));
    IF (SELECT q.history FROM queue q) THEN
        SELECT array_agg(x.tid), array_agg(CASE WHEN x.is_cancelled THEN 'cancelled' ELSE 'completed' END) INTO v_tids, v_outcomes
        FROM (
            SELECT m.ctid AS tid, m.is_cancelled FROM message m
            WHERE m.id = ANY (p_ids) AND COALESCE((m.id, m.token) IN (SELECT u.id, u.token FROM unnest(p_ids, p_tokens) u (id, token)), FALSE)
            FOR UPDATE) x;
        PERFORM history_append(v_tids, v_outcomes, NULL, clock_ms());
    END IF;
    WITH done AS (
        DELETE FROM message m
        WHERE m.id = ANY (p_ids) AND CASE WHEN v_token IS NOT NULL THEN m.token = v_token
            ELSE COALESCE((m.id, m.token) IN (SELECT u.id, u.token FROM unnest(p_ids, p_tokens) u (id, token)), FALSE) END
        RETURNING m.id, m.token, m.is_cancelled,
            CASE WHEN m.slot OR m.is_counted OR m.dedupe_key IS NOT NULL
                THEN jsonb_build_array(m.channel, m.slot, m.is_counted, m.dedupe_key, m.id) END AS special)
    SELECT array_agg(d.id), array_agg(d.token), array_agg(d.id) FILTER (WHERE d.is_cancelled),
        jsonb_agg(d.special) FILTER (WHERE d.special IS NOT NULL)
    INTO v_done, v_tokens, v_cancelled, v_special FROM done d;
    IF v_special IS NOT NULL THEN
        PERFORM message_left(array_agg(s ->> 0), array_agg((s -> 1)::BOOLEAN), array_agg((s -> 2)::BOOLEAN), array_agg(s ->> 3),
            array_agg((s -> 4)::BIGINT))
        FROM jsonb_array_elements(v_special) s;
    END IF;
    IF cardinality(v_done) = cardinality(p_ids) AND v_cancelled IS NULL THEN
        RETURN QUERY SELECT u.id, 'completed' FROM unnest(p_ids) u (id);
        RETURN;
    END IF;
    -- As a sequence of single calls would have it: the first mention under the right token completes, those after it find nothing.
    RETURN QUERY
    SELECT x.id, CASE WHEN x.ord = x.done_ord AND x.id = ANY (v_cancelled) THEN 'cancelled' WHEN x.ord = x.done_ord THEN 'completed'
        WHEN x.ord > x.done_ord THEN 'not_found' WHEN x.ord < x.done_ord THEN 'lost' ELSE message_missed(x.id, x.token) END
    FROM (
        SELECT y.id, y.ord, y.token, MIN(y.ord) FILTER (WHERE y.token = y.done_token) OVER (PARTITION BY y.id) AS done_ord
        FROM (
            SELECT z.id, z.ord, z.token, MAX(z.token::TEXT) FILTER (WHERE z.ord IS NULL) OVER (PARTITION BY z.id)::UUID AS done_token
            FROM (
                SELECT u.id, u.token, u.ord FROM unnest(p_ids, p_tokens) WITH ORDINALITY u (id, token, ord)
                UNION ALL
                SELECT u.id, u.token, NULL FROM unnest(v_done, v_tokens) u (id, token)) z) y) x
    WHERE x.ord IS NOT NULL ORDER BY x.ord;
END $$;
