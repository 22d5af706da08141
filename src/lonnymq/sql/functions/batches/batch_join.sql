-- Part of adding messages to batches: lock the batches, so that they are not closed before the transaction ends.
-- Refuses a batch that does not exist or is closed (LM018), and a login that is bound to channels.
CREATE OR REPLACE FUNCTION batch_join (p_ids BIGINT[])
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_id BIGINT;
    b batch;
BEGIN
    PERFORM unbound_check('message_create with a batch');
    FOR v_id IN SELECT DISTINCT u FROM unnest(p_ids) u WHERE u IS NOT NULL ORDER BY u DESC LOOP
        SELECT * INTO b FROM batch x WHERE x.id = v_id FOR KEY SHARE;
        IF b.id IS NULL THEN
            PERFORM refuse('LM018', format('there is no batch %s', v_id),
                'It may have been removed, or the transaction that opened it is not committed: use that transaction.');
        ELSIF b.closed_at IS NOT NULL THEN
            PERFORM refuse('LM018',
                format('batch %s is %s', v_id, CASE WHEN b.cancelled_at IS NULL THEN 'closed' ELSE 'cancelled' END),
                'Add messages before you close it, or open another batch.');
        END IF;
    END LOOP;
END $$;
