-- Complete all messages of the claims up to p_seq. Returns how many were completed, how many had been cancelled, and
-- how many are lost: their leases ran out, and others have them or had them. With p_whole the call is refused if any is
-- lost: call it so in the transaction that stores the result of the work, and each message counts exactly once.
-- p_failed_ids are messages of these claims whose attempt failed, with p_errors: they are not completed, but come back
-- after up to a second, and after up to twice as long each time, at most ten minutes; after the last attempt they are
-- dead.
CREATE OR REPLACE FUNCTION claim_complete (
    p_claimant TEXT, p_generation BIGINT, p_seq BIGINT, p_whole BOOLEAN DEFAULT FALSE,
    p_failed_ids BIGINT[] DEFAULT NULL, p_errors TEXT[] DEFAULT NULL)
RETURNS TABLE (completed BIGINT, cancelled BIGINT, lost BIGINT, failed BIGINT) LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    c claimant := claim_check(p_claimant, p_generation, TRUE);
    v_ids BIGINT[];
    v_tokens UUID[];
    f RECORD;                               -- from claim_fail
BEGIN
    PERFORM array_lengths_check(COALESCE(cardinality(p_failed_ids), 0), COALESCE(cardinality(p_errors), 0));
    IF p_seq IS NULL OR p_seq NOT BETWEEN 0 AND c.last_seq THEN
        PERFORM refuse('LM015',
            format('claim %s of %s was never made', COALESCE(p_seq::TEXT, 'NULL'), quote_literal(p_claimant)),
            'The reader''s checkpoint is from another queue, or the database was restored since. '
            || 'Start the reader with a new checkpoint.');
    END IF;
    WITH gone AS (
        DELETE FROM claim x WHERE x.claimant = p_claimant AND x.seq > c.done_seq AND x.seq <= p_seq
        RETURNING x.id, x.token)
    SELECT array_agg(g.id), array_agg(g.token) INTO v_ids, v_tokens FROM gone g;
    completed := 0;
    cancelled := 0;
    lost := 0;
    failed := 0;
    IF p_failed_ids IS NOT NULL AND v_ids IS NOT NULL THEN
        f := claim_fail(v_ids, v_tokens, p_failed_ids, p_errors);
        v_ids := f.ids;                     -- NULL if all have failed
        v_tokens := f.tokens;
        failed := f.failed;
        cancelled := f.cancelled;
        lost := f.lost;
    END IF;
    IF v_ids IS NOT NULL THEN
        SELECT COUNT(*) FILTER (WHERE m.result = 'completed'),
            cancelled + COUNT(*) FILTER (WHERE m.result = 'cancelled'),
            lost + COUNT(*) FILTER (WHERE m.result NOT IN ('completed', 'cancelled'))
        INTO completed, cancelled, lost FROM message_complete_many(v_ids, v_tokens) m;
    END IF;
    IF p_whole AND lost > 0 THEN
        PERFORM refuse('LM016',
            format(CASE lost WHEN 1 THEN '%s message of claim %s is no longer held by %s'
                ELSE '%s messages of claim %s are no longer held by %s' END, lost, p_seq, quote_literal(p_claimant)),
            'The leases ran out. Roll back and read the claim again: it then leaves these out. Use longer leases.');
    END IF;
    IF p_seq > c.done_seq THEN
        UPDATE claimant
        SET done_seq = p_seq, most = CASE WHEN most_for > completed THEN most WHEN most <= 1000 THEN 10 * most END,
            most_for = CASE WHEN most_for > completed THEN most_for - completed WHEN most <= 1000 THEN 100 * most END
        WHERE name = p_claimant;
    END IF;
    RETURN NEXT;
END $$;
