-- message_discard for many messages. p_tokens has one token per message, or one token for all of them. Locks the
-- messages in the order of their ids. Returns one row (id, result) per element, in the order given.
CREATE OR REPLACE FUNCTION message_discard_many (p_ids BIGINT[], p_tokens UUID[], p_reasons TEXT[] DEFAULT NULL)
RETURNS TABLE (id BIGINT, result TEXT) LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT r.id, CASE r.result WHEN 'cancelled' THEN 'discarded' ELSE r.result END
    FROM message_settle(p_ids, p_tokens, 'cancelled', p_errors => p_reasons) r;
END $$;
