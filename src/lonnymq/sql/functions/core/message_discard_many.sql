-- message_discard for many, each with its token or all with one: one row (id, result) each, in the order given. Locks
-- the messages in the order of their ids.
CREATE OR REPLACE FUNCTION message_discard_many (p_ids BIGINT[], p_tokens UUID[], p_reasons TEXT[] DEFAULT NULL)
RETURNS TABLE (id BIGINT, result TEXT) LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    v_endings ending[];
BEGIN
    p_tokens := tokens_fill(p_tokens, cardinality(p_ids));
    PERFORM array_lengths_check(cardinality(p_ids), COALESCE(cardinality(p_tokens), 0), cardinality(p_reasons));
    v_endings := ARRAY(SELECT e FROM lease_lock(p_ids, p_tokens, 'cancelled', p_errors => p_reasons) e);
    IF v_endings <> '{}' THEN
        PERFORM message_finish(v_endings, clock_ms());
        PERFORM lease_close(v_endings);
    END IF;
    RETURN QUERY
    SELECT r.id, CASE r.result WHEN 'cancelled' THEN 'discarded' ELSE r.result END
    FROM message_results(p_ids, p_tokens, v_endings) r;
END $$;
