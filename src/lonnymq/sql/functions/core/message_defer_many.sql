-- message_defer for many, each with its token or all with one: one row (id, result) each, in the order given. Locks the messages in
-- the order of their ids, before it changes any; writes them by their address. Says what came back, and which slots came free, by
-- appending. What is cancelled goes.
CREATE OR REPLACE FUNCTION message_defer_many (
    p_ids BIGINT[], p_tokens UUID[], p_dequeue_ats BIGINT[] DEFAULT NULL, p_states BYTEA[] DEFAULT NULL, p_errors TEXT[] DEFAULT NULL)
RETURNS TABLE (id BIGINT, result TEXT) LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET plan_cache_mode TO force_generic_plan SET enable_seqscan TO off SET enable_bitmapscan TO off
SET enable_hashjoin TO off SET enable_mergejoin TO off SET enable_tidscan TO on SET jit TO off AS $$
#variable_conflict use_column
DECLARE
    v_now BIGINT := clock_ms();
    q queue;
    -- One element a message that the caller holds; the outcome is NULL where it comes back.
    v_ords BIGINT[];
    v_tids TID[];
    v_ats BIGINT[];
    v_states BYTEA[];
    v_errors TEXT[];
    v_outcomes TEXT[];
    v_freed TEXT[];
BEGIN
    IF cardinality(p_tokens) = 1 AND cardinality(p_ids) > 1 THEN -- of one dequeue: the same for all
        p_tokens := array_fill((SELECT u FROM unnest(p_tokens) u), ARRAY[cardinality(p_ids)]);
    END IF;
    PERFORM lengths_check(cardinality(p_ids), COALESCE(cardinality(p_tokens), 0), cardinality(p_dequeue_ats), cardinality(p_states), cardinality(p_errors));
    PERFORM time_check(at, format(' (message %s of %s)', ord, cardinality(p_ids))) FROM unnest(p_dequeue_ats) WITH ORDINALITY u (at, ord);
    PERFORM state_check(state) FROM unnest(p_states) u (state);
    SELECT * INTO q FROM queue;
    -- Of several mentions of a message under its token the first counts.
    SELECT array_agg(u.ord), array_agg(mine.tid), array_agg(u.at), array_agg(u.state), array_agg(left(u.error, 16384)),
        array_agg(CASE WHEN mine.is_cancelled THEN 'cancelled'
                       WHEN u.error IS NOT NULL AND mine.attempts + 1 >= COALESCE(mine.max_attempts, q.max_attempts) THEN 'dead' END),
        array_agg(DISTINCT mine.channel) FILTER (WHERE mine.slot)
    INTO v_ords, v_tids, v_ats, v_states, v_errors, v_outcomes, v_freed
    FROM (
        SELECT DISTINCT ON (g.id, g.token) * FROM unnest(p_ids, p_tokens, p_dequeue_ats, p_states, p_errors)
            WITH ORDINALITY g (id, token, at, state, error, ord)
        ORDER BY g.id, g.token, g.ord) u
    CROSS JOIN LATERAL (
        SELECT m.ctid AS tid, m.channel, m.slot, m.is_cancelled, m.attempts, m.max_attempts
        FROM message m WHERE m.id = u.id AND m.token = u.token OFFSET 0 FOR UPDATE) mine;
    IF array_remove(v_outcomes, NULL) <> '{}' THEN
        PERFORM message_end(v_tids, v_outcomes, v_errors, v_states, v_now);
    END IF;
    WITH back AS (
        UPDATE message m
        SET leased = FALSE, slot = FALSE, token = NULL, lease_end_at = NULL,
            dequeue_at = COALESCE(u.at, m.dequeue_at), state = COALESCE(u.new_state, m.state), error = COALESCE(u.new_error, m.error),
            attempts = m.attempts + CASE WHEN u.new_error IS NULL THEN 0 ELSE 1 END
        FROM unnest(v_tids, v_ats, v_states, v_errors, v_outcomes) u (tid, at, new_state, new_error, outcome)
        WHERE m.ctid = u.tid AND u.outcome IS NULL
        RETURNING m.channel, ARRAY[m.dequeue_at, m.id] AS place)
    INSERT INTO wake (channel, lo_at, lo_id, hi_at, hi_id, n)
    SELECT x.channel, x.lo[1], x.lo[2], x.hi[1], x.hi[2], x.n
    FROM (SELECT b.channel, MIN(b.place) AS lo, MAX(b.place) AS hi, COUNT(*) AS n FROM back b GROUP BY b.channel) x;
    INSERT INTO wake (channel) SELECT f FROM unnest(v_freed) f;
    IF v_tids IS NOT NULL THEN
        PERFORM wake_notify();
    END IF;
    -- As a sequence of single calls would have it: before it went, another token was a wrong one.
    RETURN QUERY
    SELECT x.id, CASE WHEN x.outcome IS NOT NULL THEN x.outcome WHEN x.ord < x.done_ord THEN 'lost' ELSE message_missed(x.id, x.token) END
    FROM (
        SELECT z.*, MIN(z.ord) FILTER (WHERE z.outcome IS NOT NULL) OVER (PARTITION BY z.id) AS done_ord
        FROM (
            SELECT y.ord, MAX(y.id) AS id, MAX(y.token::TEXT)::UUID AS token, MAX(y.outcome) AS outcome
            FROM (
                SELECT u.ord, u.id, u.token, NULL AS outcome FROM unnest(p_ids, p_tokens) WITH ORDINALITY u (id, token, ord)
                UNION ALL
                SELECT u.ord, NULL, NULL, COALESCE(u.outcome, 'deferred') FROM unnest(v_ords, v_outcomes) u (ord, outcome)) y
            GROUP BY y.ord) z) x
    ORDER BY x.ord;
END $$;
