-- Refuse to spread messages over a time that is out of range.
CREATE OR REPLACE FUNCTION spread_check (p_spread_ms BIGINT)
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF p_spread_ms IS NULL OR p_spread_ms NOT BETWEEN 0 AND 2592000000 THEN
        PERFORM refuse('LM003', format('a spread of %s ms is out of range', COALESCE(p_spread_ms::TEXT, 'NULL')),
            'Give 0 to 30 days.');
    END IF;
END $$;
