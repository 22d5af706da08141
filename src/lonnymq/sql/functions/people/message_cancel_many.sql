-- message_cancel for many: one row (id, result) each, in the order given. Locks the messages in the order of their ids; waits for an open
-- dequeue or finisher of the same message.
CREATE OR REPLACE FUNCTION message_cancel_many (p_ids BIGINT[])
RETURNS TABLE (id BIGINT, result TEXT) LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET plan_cache_mode TO force_generic_plan SET enable_seqscan TO off SET enable_bitmapscan TO off
SET enable_hashjoin TO off SET enable_mergejoin TO off SET enable_tidscan TO on SET jit TO off AS $$
#variable_conflict use_column
DECLARE
    v_tids TID[];
    v_outcomes TEXT[];                      -- NULL where a worker holds it
    v_gone BIGINT[];
    v_marked BIGINT[];
BEGIN
    PERFORM free_check('message_cancel');
    PERFORM lengths_check(cardinality(p_ids), NULL);
    SELECT array_agg(mine.tid), array_agg(CASE WHEN NOT mine.leased THEN 'cancelled' END),
        array_agg(u.id) FILTER (WHERE NOT mine.leased), array_agg(u.id) FILTER (WHERE mine.leased)
    INTO v_tids, v_outcomes, v_gone, v_marked
    FROM (SELECT DISTINCT g AS id FROM unnest(p_ids) g ORDER BY 1) u
    CROSS JOIN LATERAL (SELECT m.ctid AS tid, m.leased FROM message m WHERE m.id = u.id OFFSET 0 FOR UPDATE) mine;
    IF v_marked IS NOT NULL THEN
        UPDATE message m SET is_cancelled = TRUE FROM unnest(v_tids, v_outcomes) u (tid, outcome) WHERE m.ctid = u.tid AND u.outcome IS NULL;
    END IF;
    IF v_gone IS NOT NULL THEN
        PERFORM message_end(v_tids, v_outcomes, NULL, NULL, clock_ms());
        INSERT INTO wake (n) VALUES (-cardinality(v_gone));
    END IF;
    RETURN QUERY
    SELECT x.id, CASE WHEN x.id = ANY (v_marked) THEN 'marked' WHEN x.id = ANY (v_gone) AND x.nth = 1 THEN 'cancelled'
        WHEN EXISTS (SELECT FROM dead d WHERE d.id = x.id) THEN 'dead' ELSE 'not_found' END
    FROM (SELECT u.id, u.ord, ROW_NUMBER() OVER (PARTITION BY u.id ORDER BY u.ord) AS nth FROM unnest(p_ids) WITH ORDINALITY u (id, ord)) x
    ORDER BY x.ord;
END $$;
