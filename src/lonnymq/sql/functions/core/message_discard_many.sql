-- message_discard for many, each with its token or all with one: one row (id, result) each, in the order given. Locks
-- the messages in the order of their ids.
CREATE OR REPLACE FUNCTION message_discard_many (p_ids BIGINT[], p_tokens UUID[], p_reasons TEXT[] DEFAULT NULL)
RETURNS TABLE (id BIGINT, result TEXT) LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT r.id, CASE r.result WHEN 'cancelled' THEN 'discarded' ELSE r.result END
    FROM message_settle(p_ids, p_tokens, 'cancelled', p_errors => p_reasons) r;
END $$;
