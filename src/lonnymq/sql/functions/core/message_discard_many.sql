-- message_discard for many, each with its token or all with one: one row (id, result) each, in the order given. Locks the messages in the order
-- of their ids. Says which slots came free by appending.
CREATE OR REPLACE FUNCTION message_discard_many (p_ids BIGINT[], p_tokens UUID[], p_reasons TEXT[] DEFAULT NULL)
RETURNS TABLE (id BIGINT, result TEXT) LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET plan_cache_mode TO force_generic_plan SET enable_seqscan TO off SET enable_bitmapscan TO off
SET enable_hashjoin TO off SET enable_mergejoin TO off SET enable_tidscan TO on SET jit TO off AS $$
#variable_conflict use_column
DECLARE
    v_ords BIGINT[];
    v_tids TID[];
    v_reasons TEXT[];
    v_freed TEXT[];
BEGIN
    IF cardinality(p_tokens) = 1 AND cardinality(p_ids) > 1 THEN -- of one dequeue: the same for all
        p_tokens := array_fill((SELECT u FROM unnest(p_tokens) u), ARRAY[cardinality(p_ids)]);
    END IF;
    PERFORM lengths_check(cardinality(p_ids), COALESCE(cardinality(p_tokens), 0), cardinality(p_reasons));
    -- Of several mentions of a message under its token the first counts.
    SELECT array_agg(u.ord), array_agg(mine.tid), array_agg(left(u.reason, 16384)), array_agg(DISTINCT mine.channel) FILTER (WHERE mine.slot)
    INTO v_ords, v_tids, v_reasons, v_freed
    FROM (
        SELECT DISTINCT ON (g.id, g.token) * FROM unnest(p_ids, p_tokens, p_reasons) WITH ORDINALITY g (id, token, reason, ord)
        ORDER BY g.id, g.token, g.ord) u
    CROSS JOIN LATERAL (
        SELECT m.ctid AS tid, m.channel, m.slot FROM message m WHERE m.id = u.id AND m.token = u.token OFFSET 0 FOR UPDATE) mine;
    IF v_tids IS NOT NULL THEN
        PERFORM message_end(v_tids, array_fill('cancelled'::TEXT, ARRAY[cardinality(v_tids)]), v_reasons, NULL, clock_ms());
    END IF;
    IF v_freed IS NOT NULL THEN
        INSERT INTO wake (channel) SELECT f FROM unnest(v_freed) f;
        PERFORM wake_notify();
    END IF;
    -- As a sequence of single calls would have it: before it went, another token was a wrong one.
    RETURN QUERY
    SELECT x.id, CASE WHEN x.ord = x.done_ord THEN 'discarded' WHEN x.ord < x.done_ord THEN 'lost' ELSE message_missed(x.id, x.token) END
    FROM (
        SELECT u.id, u.token, u.ord, MIN(u.ord) FILTER (WHERE u.ord = ANY (v_ords)) OVER (PARTITION BY u.id) AS done_ord
        FROM unnest(p_ids, p_tokens) WITH ORDINALITY u (id, token, ord)) x
    ORDER BY x.ord;
END $$;
