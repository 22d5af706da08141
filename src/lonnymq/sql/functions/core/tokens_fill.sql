-- One token per message: messages of one dequeue share their token, and a call may give it once.
CREATE OR REPLACE FUNCTION tokens_fill (p_tokens UUID[], p_count INT)
RETURNS UUID[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF cardinality(p_tokens) = 1 AND p_count > 1 THEN
        RETURN array_fill((SELECT u FROM unnest(p_tokens) u), ARRAY[p_count]);
    END IF;
    RETURN p_tokens;
END $$;
