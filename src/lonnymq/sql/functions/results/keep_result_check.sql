-- Refuse to keep a result for a time that is out of range. NULL passes.
CREATE OR REPLACE FUNCTION keep_result_check (p_keep_result_ms BIGINT, p_place TEXT DEFAULT '')
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF p_keep_result_ms NOT BETWEEN 0 AND 31536000000 THEN
        PERFORM refuse('LM003', format('keeping a result for %s ms is not possible%s', p_keep_result_ms, p_place),
            'Keep it for 1 to 31,536,000,000 ms (a year), or 0 for not at all.');
    END IF;
END $$;
