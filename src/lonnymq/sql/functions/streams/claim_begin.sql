-- The reader begins to process the claims up to p_upto: extend the leases of all its claims, and remove lost and
-- cancelled messages from them, as claim_extend does with p_forget. Call it once before a batch is read.
-- If an earlier reader had begun with some of these claims and did not complete them, one of their messages may be the
-- reason, so they are processed in smaller claims: a tenth of them stays, and the others move to new claims, of the
-- same size, with the next numbers. A claim of a single message that was not completed uses up an attempt of it; after
-- the last one it is dead. No other message is charged. New claims are smaller, too (claimant.most).
-- Returns how many messages the claims up to p_upto have now, how many were lost, and how many died.
CREATE OR REPLACE FUNCTION claim_begin (
    p_claimant TEXT, p_generation BIGINT, p_upto BIGINT, p_lease_ms BIGINT DEFAULT NULL)
RETURNS TABLE (messages BIGINT, lost BIGINT, dead BIGINT) LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    c claimant := claim_check(p_claimant, p_generation, TRUE);
    v_ids BIGINT[];                         -- what was begun and not completed
    v_tokens UUID[];
    v_seq BIGINT;                           -- the first of these claims
    v_size INT;                             -- of the new claims
BEGIN
    IF p_upto IS NULL OR p_upto NOT BETWEEN 0 AND c.last_seq THEN
        PERFORM refuse('LM015',
            format('claim %s of %s was never made', COALESCE(p_upto::TEXT, 'NULL'), quote_literal(p_claimant)),
            'The reader''s checkpoint is from another queue, or the database was restored since. '
            || 'Start the reader with a new checkpoint.');
    END IF;
    lost := (SELECT e.lost FROM claim_extend(p_claimant, p_generation, p_lease_ms, TRUE) e);
    dead := 0;
    IF c.begun_generation < p_generation AND c.begun_seq > c.done_seq THEN
        c.most := GREATEST(1, LEAST(c.most, (c.begun_n + 9) / 10));
        c.most_for := 10 * c.most;
        SELECT array_agg(x.id ORDER BY x.seq, x.ord), array_agg(x.token ORDER BY x.seq, x.ord), MIN(x.seq)
        INTO v_ids, v_tokens, v_seq FROM claim x
        WHERE x.claimant = p_claimant AND x.seq > c.done_seq AND x.seq <= LEAST(p_upto, c.begun_seq);
        IF cardinality(v_ids) = 1 THEN
            dead := claim_charge(p_claimant, v_ids[1], v_tokens[1])::INT;
        ELSIF v_ids IS NOT NULL THEN
            v_size := (cardinality(v_ids) + 9) / 10;
            DELETE FROM claim x
            WHERE x.claimant = p_claimant AND x.seq > c.done_seq AND x.seq <= LEAST(p_upto, c.begun_seq);
            INSERT INTO claim (claimant, seq, ord, id, token)
            SELECT p_claimant, CASE WHEN g.nth = 0 THEN v_seq ELSE c.last_seq + g.nth END, u.ord, u.id, u.token
            FROM unnest(v_ids, v_tokens) WITH ORDINALITY u (id, token, ord)
            CROSS JOIN LATERAL (SELECT (u.ord - 1) / v_size AS nth) g;
            c.last_seq := c.last_seq + (cardinality(v_ids) - 1) / v_size;
        END IF;
    END IF;
    messages := (
        SELECT COUNT(*) FROM claim x WHERE x.claimant = p_claimant AND x.seq > c.done_seq AND x.seq <= p_upto);
    UPDATE claimant
    SET last_seq = c.last_seq, begun_generation = p_generation, begun_seq = p_upto, begun_n = claim_begin.messages,
        most = c.most, most_for = c.most_for
    WHERE name = p_claimant;
    RETURN NEXT;
END $$;
