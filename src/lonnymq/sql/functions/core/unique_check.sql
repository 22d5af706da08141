-- Refuse a unique_while or unique_for_ms that is not valid, or that is given without a dedupe key.
CREATE OR REPLACE FUNCTION unique_check (p new_message, p_place TEXT DEFAULT '')
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF p.dedupe_key IS NULL THEN
        PERFORM refuse('LM010', format('%s is given without a dedupe key%s',
            CASE WHEN p.unique_for_ms IS NULL THEN 'unique_while' ELSE 'unique_for' END, p_place),
            'Give a dedupe key, too: it says which messages are duplicates.');
    ELSIF p.unique_while NOT IN ('waiting', 'running') THEN
        PERFORM refuse('LM010', format('a unique_while of %s is not known%s', quote_literal(p.unique_while), p_place),
            'Give waiting or running.');
    ELSIF p.unique_for_ms NOT BETWEEN 0 AND 31536000000 THEN
        PERFORM refuse('LM010', format('a unique_for of %s ms is out of range%s', p.unique_for_ms, p_place),
            'Give 0 to 31,536,000,000 ms (a year).');
    ELSIF p.unique_while = 'waiting' AND p.unique_for_ms IS NOT NULL THEN
        PERFORM refuse('LM010', 'unique_while is waiting, and unique_for is given' || p_place,
            'Give one of the two: with unique_for, the key is held until the message is finished, and longer.');
    END IF;
END $$;
