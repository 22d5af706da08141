-- Whether the message in a row of dedupe holds its key at p_now, so that a create with the key is a duplicate.
-- For a key that is held while its message waits, the answer must stay true until the caller's transaction ends. If the
-- message started before that, it would not see what the transaction wrote, and no other message would be created for
-- it. So this locks the row FOR SHARE, and a dequeue does not start the message while the row is locked (see
-- dedupe_may_start). Several creates can hold that lock at once. Finishing calls do not need the row.
-- It looks at the message before it locks the row, because the lock stays until the transaction ends, and again
-- afterwards. Never waits: if somebody else has the row, the message is being started, or the key is being taken over.
-- Above READ COMMITTED it refuses (LM009) if the message waited at the time of the snapshot.
CREATE OR REPLACE FUNCTION dedupe_holds (d dedupe, p_now BIGINT)
RETURNS BOOLEAN LANGUAGE plpgsql AS $$
BEGIN
    IF d.unique_for_ms IS NOT NULL THEN
        RETURN d.until_at IS NULL OR d.until_at > p_now;
    ELSIF NOT message_is_waiting(d.message_id) THEN
        RETURN FALSE;
    ELSIF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        -- It may have started after the snapshot.
        PERFORM refuse('LM009', format('at isolation level %s, it cannot be seen whether message %s, which has the '
            || 'dedupe key %s, still waits', upper(current_setting('transaction_isolation')), d.message_id,
            quote_literal(d.key)), 'Use a READ COMMITTED transaction.');
    END IF;
    PERFORM FROM dedupe x
    WHERE x.channel = d.channel AND x.key = d.key AND x.turn = d.turn AND x.message_id = d.message_id
    FOR SHARE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN FALSE;
    END IF;
    RETURN message_is_waiting(d.message_id);
END $$;
