-- Write how an action ended: once, and never changed later. Returns whether the row has this outcome now: FALSE if
-- there is no such row, or if it has another outcome. Locks the row.
CREATE OR REPLACE FUNCTION audit_end (p_id BIGINT, p_outcome TEXT)
RETURNS BOOLEAN LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM unbound_check('audit_end');
    PERFORM audit_check('outcome', p_outcome, 1000);
    UPDATE audit a SET outcome = p_outcome, ended_at = clock_ms() WHERE a.id = p_id AND a.outcome IS NULL;
    RETURN FOUND OR EXISTS (SELECT FROM audit a WHERE a.id = p_id AND a.outcome = p_outcome);
END $$;
