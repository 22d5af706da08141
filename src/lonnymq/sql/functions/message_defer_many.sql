-- message_defer for many: one row (id, result) each, in the order given. Locks the messages in the order of their ids,
-- before it changes any; writes them by their address. Says what came back, and which slots came free, by appending.
CREATE OR REPLACE FUNCTION message_defer_many (
    p_ids BIGINT[], p_tokens UUID[], p_dequeue_ats BIGINT[] DEFAULT NULL, p_states BYTEA[] DEFAULT NULL, p_errors TEXT[] DEFAULT NULL)
RETURNS TABLE (id BIGINT, result TEXT) LANGUAGE plpgsql
SET search_path FROM CURRENT SET plan_cache_mode TO force_generic_plan SET enable_seqscan TO off SET enable_bitmapscan TO off
SET enable_hashjoin TO off SET enable_mergejoin TO off SET enable_tidscan TO on SET jit TO off AS $$
#variable_conflict use_column
DECLARE
    v_now BIGINT := clock_ms();
    v_max INT := (SELECT q.max_attempts FROM queue q);
    v_ords BIGINT[];
    v_tids TID[];
    v_ats BIGINT[];
    v_states BYTEA[];
    v_errors TEXT[];
    v_freed TEXT[];
    v_dead BIGINT[];
BEGIN
    PERFORM lengths_check(cardinality(p_ids), COALESCE(cardinality(p_tokens), 0), cardinality(p_dequeue_ats), cardinality(p_states), cardinality(p_errors));
    PERFORM time_check(at, format(' (message %s of %s)', ord, cardinality(p_ids))) FROM unnest(p_dequeue_ats) WITH ORDINALITY u (at, ord);
    PERFORM state_check(state) FROM unnest(p_states) u (state);
    -- Of several mentions of a message under its token the first counts.
    SELECT array_agg(u.ord), array_agg(mine.tid), array_agg(u.at), array_agg(u.state), array_agg(left(u.error, 16384)),
        array_agg(DISTINCT mine.channel) FILTER (WHERE mine.slot)
    INTO v_ords, v_tids, v_ats, v_states, v_errors, v_freed
    FROM (
        SELECT DISTINCT ON (g.id, g.token) * FROM unnest(p_ids, p_tokens, p_dequeue_ats, p_states, p_errors)
            WITH ORDINALITY g (id, token, at, state, error, ord)
        ORDER BY g.id, g.token, g.ord) u
    CROSS JOIN LATERAL (
        SELECT m.ctid AS tid, m.channel, m.slot FROM message m WHERE m.id = u.id AND m.token = u.token OFFSET 0 FOR UPDATE) mine;
    WITH gone AS (
        DELETE FROM message m USING unnest(v_tids, v_ords, v_states, v_errors) u (tid, ord, new_state, new_error)
        WHERE m.ctid = u.tid AND u.new_error IS NOT NULL AND m.attempts + 1 >= COALESCE(m.max_attempts, v_max)
        RETURNING m.*, u.ord, u.new_state, u.new_error),
    parked AS (
        INSERT INTO dead (id, dequeue_at, created_at, dead_at, attempts, max_attempts, channel, consumer, error, headers, state, content)
        SELECT g.id, g.dequeue_at, g.created_at, v_now, g.attempts + 1, g.max_attempts, g.channel, g.consumer, g.new_error,
            g.headers, COALESCE(g.new_state, g.state), g.content
        FROM gone g)
    SELECT array_agg(g.ord) INTO v_dead FROM gone g;
    WITH back AS (
        UPDATE message m
        SET leased = FALSE, slot = FALSE, token = NULL, lease_end_at = NULL,
            dequeue_at = COALESCE(u.at, m.dequeue_at), state = COALESCE(u.new_state, m.state), error = COALESCE(u.new_error, m.error),
            attempts = m.attempts + CASE WHEN u.new_error IS NULL THEN 0 ELSE 1 END
        FROM unnest(v_tids, v_ats, v_states, v_errors) u (tid, at, new_state, new_error)
        WHERE m.ctid = u.tid
        RETURNING m.channel, ARRAY[m.dequeue_at, m.id] AS place)
    INSERT INTO wake (channel, lo_at, lo_id, hi_at, hi_id)
    SELECT x.channel, x.lo[1], x.lo[2], x.hi[1], x.hi[2]
    FROM (SELECT b.channel, MIN(b.place) AS lo, MAX(b.place) AS hi FROM back b GROUP BY b.channel) x;
    INSERT INTO wake (channel) SELECT f FROM unnest(v_freed) f;
    RETURN QUERY
    SELECT x.id, COALESCE((ARRAY['deferred', 'dead'])[x.outcome], message_missed(x.id))
    FROM (
        SELECT y.ord, MAX(y.id) AS id, MAX(y.outcome) AS outcome
        FROM (
            SELECT u.ord, u.id, NULL::INT AS outcome FROM unnest(p_ids) WITH ORDINALITY u (id, ord)
            UNION ALL
            SELECT o, NULL, 1 FROM unnest(v_ords) o
            UNION ALL
            SELECT o, NULL, 2 FROM unnest(v_dead) o) y
        GROUP BY y.ord) x
    ORDER BY x.ord;
END $$;
