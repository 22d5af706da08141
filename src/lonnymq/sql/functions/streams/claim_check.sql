-- Refuse a claimant that was never opened, or that another reader has opened since. With p_lock, nobody can open it
-- before the transaction ends. Returns the claimant.
CREATE OR REPLACE FUNCTION claim_check (p_claimant TEXT, p_generation BIGINT, p_lock BOOLEAN)
RETURNS claimant LANGUAGE plpgsql AS $$
DECLARE
    c claimant;
BEGIN
    PERFORM unbound_check('claim');
    IF p_lock THEN
        SELECT * INTO c FROM claimant x WHERE x.name = p_claimant FOR UPDATE;
    ELSE
        SELECT * INTO c FROM claimant x WHERE x.name = p_claimant;
    END IF;
    IF c.name IS NULL THEN
        PERFORM refuse('LM014', format('nobody has opened the claimant %s',
            COALESCE(quote_literal(left(p_claimant, 100)), 'NULL')), 'Call claim_open first.');
    ELSIF c.generation IS DISTINCT FROM p_generation THEN
        PERFORM refuse('LM014', format('claimant %s was opened by another reader since', quote_literal(p_claimant)),
            'A claimant can have one reader: stop one of the two, or give them different names.');
    END IF;
    RETURN c;
END $$;
