-- The work is done: the message goes, if the caller still holds it. May run inside the caller's transaction and then
-- counts when that commits. Locks the message alone, its lease where nothing else is left of it, and its dedupe key if
-- it has one; a slot that came free is said by appending.
-- Returns 'completed', 'cancelled' (it goes, and nobody wanted it any more), 'lost' (not under this token) or
-- 'not_found'.
CREATE OR REPLACE FUNCTION message_complete (p_id BIGINT, p_token UUID)
RETURNS TEXT LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    v_done RECORD;
BEGIN
    WITH l AS MATERIALIZED (
        SELECT x.last_id, x.is_limited, x.stubs FROM lease x
        WHERE x.token = p_token AND x.last_id >= p_id ORDER BY x.last_id LIMIT 1),
    gone AS MATERIALIZED (
        DELETE FROM message m USING l
        WHERE m.id = p_id AND ROW(m.id, m.generation)::stub = ANY (l.stubs)
            AND NOT m.is_counted AND NOT m.is_cancelled AND m.dedupe_key IS NULL AND NOT (SELECT q.history FROM queue q)
        RETURNING m.channel, l.is_limited),
    ended AS (
        DELETE FROM lease x USING l CROSS JOIN gone
        WHERE x.token = p_token AND x.last_id = l.last_id AND l.last_id = p_id
            AND (cardinality(l.stubs) = 1 OR NOT EXISTS (
                SELECT FROM unnest(l.stubs) s
                CROSS JOIN LATERAL (
                    SELECT FROM message m WHERE m.id = s.id AND m.id <> p_id AND m.generation = s.generation
                    OFFSET 0) m)))
    SELECT g.channel, g.is_limited INTO v_done FROM gone g;
    IF v_done.channel IS NULL THEN          -- there is more to do than that, or it is not the caller's
        RETURN (SELECT x.result FROM message_complete_many(ARRAY[p_id], ARRAY[p_token]) x);
    ELSIF v_done.is_limited THEN
        PERFORM slots_free(ARRAY[v_done.channel]);
    END IF;
    RETURN 'completed';
END $$;
