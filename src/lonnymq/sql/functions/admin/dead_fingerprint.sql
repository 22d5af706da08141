-- Identifies dead letters that belong together: those of one task whose errors have the same pattern.
CREATE OR REPLACE FUNCTION dead_fingerprint (p_task TEXT, p_pattern TEXT)
RETURNS TEXT LANGUAGE sql IMMUTABLE
RETURN left(encode(sha256(convert_to(COALESCE(p_task, '') || E'\n' || COALESCE(p_pattern, ''), 'UTF8')), 'hex'), 12);
