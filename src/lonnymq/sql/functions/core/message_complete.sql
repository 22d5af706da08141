-- The work is done: delete the message, if the caller holds it. May run inside the caller's transaction, and takes
-- effect when that commits. Locks the message, its lease row if nothing else is left in it, its dedupe key if that is
-- kept longer, and the counts of its batch. A slot that becomes free is announced by a notice.
-- p_result and its content type are kept for p_keep_result_ms, or for as long as the message says, together with the
-- fact that it is done. A result that nothing keeps is refused.
-- Returns 'completed', 'cancelled' (it is deleted; somebody cancelled it meanwhile), 'lost' (the token is not the one
-- of its lease) or 'not_found'.
-- This is the hot path: the usual case is one DELETE. Going through message_complete_many would take 1.6 times as long.
CREATE OR REPLACE FUNCTION message_complete (
    p_id BIGINT, p_token UUID, p_result BYTEA DEFAULT NULL, p_result_type TEXT DEFAULT NULL,
    p_keep_result_ms BIGINT DEFAULT NULL)
RETURNS TEXT LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    v_channel TEXT;
    v_is_limited BOOLEAN;
    v_is_last BOOLEAN;
    v_is_only BOOLEAN;
BEGIN
    DELETE FROM message m
    USING (
        SELECT x.last_id, x.is_limited, x.stubs FROM lease x
        WHERE x.token = p_token AND x.last_id >= p_id ORDER BY x.last_id LIMIT 1) l
    WHERE m.id = p_id AND ROW(m.id, m.generation)::stub = ANY (l.stubs)
        AND NOT m.is_counted AND NOT m.is_cancelled AND m.unique_for_ms IS NULL AND NOT (SELECT q.history FROM queue q)
        AND m.batch_id IS NULL AND m.keep_result_ms IS NULL AND p_result IS NULL AND p_keep_result_ms IS NULL
    RETURNING m.channel, l.is_limited, l.last_id = p_id, cardinality(l.stubs) = 1
    INTO v_channel, v_is_limited, v_is_last, v_is_only;
    IF v_channel IS NULL THEN               -- not the usual case, or not held by the caller
        RETURN (
            SELECT x.result FROM message_complete_many(ARRAY[p_id], ARRAY[p_token],
                CASE WHEN p_result IS NOT NULL THEN ARRAY[p_result] END,
                CASE WHEN p_result_type IS NOT NULL THEN ARRAY[p_result_type] END,
                CASE WHEN p_keep_result_ms IS NOT NULL THEN ARRAY[p_keep_result_ms] END) x);
    ELSIF v_is_only THEN
        DELETE FROM lease x WHERE x.token = p_token AND x.last_id = p_id;
    ELSIF v_is_last THEN                    -- the row may have no message left
        DELETE FROM lease x
        WHERE x.token = p_token AND x.last_id = p_id AND NOT EXISTS (
            SELECT FROM unnest(x.stubs) s
            CROSS JOIN LATERAL (
                SELECT FROM message m WHERE m.id = s.id AND m.generation = s.generation OFFSET 0) m);
    END IF;
    IF v_is_limited THEN
        PERFORM slots_notify(ARRAY[v_channel]);
    END IF;
    RETURN 'completed';
END $$;
