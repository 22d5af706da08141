-- Which of these messages the caller still has leased. p_tokens has one token per message, or one token for all of
-- them. Reads only what is committed, and locks nothing: a message that an open transaction has completed is still
-- leased. Returns one row (id, result) per element, in the order given: 'leased', 'cancelled' (leased, but somebody
-- cancelled it), 'lost' or 'not_found'.
CREATE OR REPLACE FUNCTION message_leased_many (p_ids BIGINT[], p_tokens UUID[])
RETURNS TABLE (id BIGINT, result TEXT) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
BEGIN
    p_tokens := tokens_fill(p_tokens, cardinality(p_ids));
    PERFORM array_lengths_check(cardinality(p_ids), COALESCE(cardinality(p_tokens), 0));
    RETURN QUERY
    SELECT u.id, COALESCE((
            SELECT 'leased' FROM message m
            CROSS JOIN LATERAL (
                SELECT x.stubs FROM lease x
                WHERE x.token = u.token AND x.last_id >= u.id ORDER BY x.last_id LIMIT 1) l
            WHERE m.id = u.id AND NOT m.is_cancelled AND ROW(m.id, m.generation)::stub = ANY (l.stubs)),
        message_miss_reason(u.id, u.token))
    FROM unnest(p_ids, p_tokens) WITH ORDINALITY u (id, token, ord)
    ORDER BY u.ord;
END $$;
