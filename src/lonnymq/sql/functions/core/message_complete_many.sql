-- message_complete for many messages. p_tokens has one token per message, or one token for all of them. Locks the
-- messages in the order of their ids, so that two calls never deadlock. Returns one row (id, result) per element, in
-- the order given.
CREATE OR REPLACE FUNCTION message_complete_many (
    p_ids BIGINT[], p_tokens UUID[], p_results BYTEA[] DEFAULT NULL, p_result_types TEXT[] DEFAULT NULL,
    p_keep_results_ms BIGINT[] DEFAULT NULL)
RETURNS TABLE (id BIGINT, result TEXT) LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    v_token UUID := p_tokens[array_lower(p_tokens, 1)];
BEGIN
    IF v_token = ALL (p_tokens) AND cardinality(p_tokens) IN (1, cardinality(p_ids)) AND cardinality(p_ids) > 0
        AND p_results IS NULL AND p_keep_results_ms IS NULL AND NOT (SELECT q.history FROM queue q)
    THEN
        RETURN QUERY SELECT * FROM message_complete_batch(p_ids, v_token);
        RETURN;
    END IF;
    RETURN QUERY
    SELECT * FROM message_settle(p_ids, p_tokens, 'completed',
        p_results => results_check(cardinality(p_ids), p_results, p_result_types, p_keep_results_ms));
END $$;
