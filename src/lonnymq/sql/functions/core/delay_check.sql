-- Refuse a delay that is out of range, or that is given together with a time.
CREATE OR REPLACE FUNCTION delay_check (p_delay_ms BIGINT, p_dequeue_at BIGINT, p_place TEXT DEFAULT '')
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF p_delay_ms IS NOT NULL AND p_dequeue_at IS NOT NULL THEN
        PERFORM refuse('LM003', 'both a delay and a time are given' || p_place, 'Give one of the two.');
    ELSIF NOT delay_is_valid(p_delay_ms) THEN
        PERFORM refuse('LM003', format('a delay of %s ms is out of range%s', p_delay_ms, p_place),
            'Give 0 to 2^52 ms.');
    END IF;
END $$;
