-- Refuse a delay that is out of range, or that is given together with a time. p_place says which element of a batch it
-- was.
CREATE OR REPLACE FUNCTION delay_check (p_delay_ms BIGINT, p_dequeue_at BIGINT, p_place TEXT DEFAULT '')
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF p_delay_ms IS NOT NULL AND p_dequeue_at IS NOT NULL THEN
        PERFORM refuse('LM003', 'a message has both a delay and a time' || p_place,
            'Give p_delay_ms or p_dequeue_at, not both.');
    ELSIF p_delay_ms NOT BETWEEN 0 AND 4503599627370496 THEN
        PERFORM refuse('LM003', format('a delay of %s ms is out of range%s', p_delay_ms, p_place),
            'Give 0 to 2^52 ms.');
    END IF;
END $$;
