-- Start to consume in numbered claims under a name. A reader that opened the name before is refused from now on.
-- Returns the generation, which the other calls take as a parameter, the last claim that is complete, and the last that
-- was made.
CREATE OR REPLACE FUNCTION claim_open (p_claimant TEXT)
RETURNS TABLE (generation BIGINT, done_seq BIGINT, last_seq BIGINT) LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT AS $$
#variable_conflict use_column
BEGIN
    PERFORM unbound_check('claim_open');
    IF p_claimant IS NULL OR octet_length(p_claimant) NOT BETWEEN 1 AND 255 THEN
        PERFORM refuse('LM010', format('the claimant''s name is %s',
            COALESCE(octet_length(p_claimant) || ' bytes long', 'NULL')), 'Give a name of 1 to 255 bytes.');
    END IF;
    RETURN QUERY
    INSERT INTO claimant AS c (name, generation, opened_at) VALUES (p_claimant, 1, clock_ms())
    ON CONFLICT (name) DO UPDATE SET generation = c.generation + 1, opened_at = excluded.opened_at
    RETURNING c.generation, c.done_seq, c.last_seq;
END $$;
