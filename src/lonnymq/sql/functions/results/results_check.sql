-- The results that a completing call gives, as one array; NULL: it gives none. Refuses arrays whose length is not
-- p_count, results that are larger than the queue allows content to be, content types that are too long, and times that
-- are out of range.
CREATE OR REPLACE FUNCTION results_check (
    p_count INT, p_results BYTEA[], p_result_types TEXT[], p_keep_results_ms BIGINT[])
RETURNS given_result[] LANGUAGE plpgsql AS $$
DECLARE
    v_max INT := (SELECT q.content_max_bytes FROM queue q);
    v_bytes INT;
BEGIN
    IF p_results IS NULL AND p_keep_results_ms IS NULL THEN
        RETURN NULL;
    END IF;
    PERFORM array_lengths_check(p_count, cardinality(p_results), cardinality(p_result_types),
        cardinality(p_keep_results_ms));
    v_bytes := (SELECT MAX(octet_length(u)) FROM unnest(p_results) u);
    IF v_bytes > v_max THEN
        PERFORM refuse('LM010', format('the result is %s bytes long', v_bytes),
            format('At most %s bytes are allowed, as for content.', v_max));
    END IF;
    v_bytes := (SELECT MAX(octet_length(u)) FROM unnest(p_result_types) u);
    IF v_bytes > 255 THEN
        PERFORM refuse('LM010', format('the content type of the result is %s bytes long', v_bytes),
            'Give at most 255 bytes, such as application/json.');
    END IF;
    PERFORM keep_result_check(u) FROM unnest(p_keep_results_ms) u WHERE u IS NOT NULL;
    RETURN ARRAY(
        SELECT ROW(u.content, u.content_type, u.keep_ms)::given_result
        FROM unnest(p_results, p_result_types, p_keep_results_ms)
            WITH ORDINALITY u (content, content_type, keep_ms, ord)
        ORDER BY u.ord);
END $$;
