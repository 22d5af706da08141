-- Cancel a batch. The first call closes it and drops its callbacks; a callback that was to belong to another batch
-- counts as cancelled there. Each further call cancels up to p_limit of its messages, as message_cancel does. Make each
-- call in its own transaction, until the result is not 'more': the first call locks the batch, the others lock messages
-- first, so two of them in one transaction could deadlock with a call that finishes messages.
-- READ COMMITTED only. Returns 'more', 'cancelled', 'finished' (there was nothing left to cancel) or 'not_found', and
-- how many messages this call has cancelled. Those that are leased end when their workers finish or extend them.
CREATE OR REPLACE FUNCTION batch_cancel (p_id BIGINT, p_limit INT DEFAULT 10000)
RETURNS TABLE (result TEXT, messages BIGINT) LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    b batch;
    v_ids BIGINT[];
BEGIN
    PERFORM isolation_check('batch_cancel');
    PERFORM unbound_check('batch_cancel');
    PERFORM limit_check(p_limit, 100000);
    SELECT * INTO b FROM batch x WHERE x.id = p_id;
    messages := 0;
    IF b.id IS NULL THEN
        result := 'not_found';
    ELSIF b.cancelled_at IS NULL THEN
        result := batch_drop_callbacks(p_id, clock_ms());
    ELSE
        v_ids := ARRAY(
            SELECT DISTINCT m.id
            FROM batch_part p
            CROSS JOIN LATERAL (
                SELECT m.id FROM message m
                WHERE m.id >= p.lo_id AND m.id <= p.hi_id AND m.batch_id = p_id AND NOT m.is_cancelled OFFSET 0) m
            WHERE p.batch_id = p_id LIMIT p_limit);
        messages := (SELECT COUNT(*) FROM message_cancel_many(v_ids) x WHERE x.result IN ('cancelled', 'marked'));
        result := CASE WHEN cardinality(v_ids) = p_limit THEN 'more' ELSE 'cancelled' END;
    END IF;
    RETURN NEXT;
END $$;
