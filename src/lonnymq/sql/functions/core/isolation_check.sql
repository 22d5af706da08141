-- Refuse every isolation level but READ COMMITTED: the callers read, lock and read again, and the second read must see
-- what was committed in between. Otherwise a dispatch could pass over messages that it could not see.
CREATE OR REPLACE FUNCTION isolation_check (p_call TEXT)
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        PERFORM refuse('LM009', format('%s cannot run at isolation level %s', p_call,
            upper(current_setting('transaction_isolation'))),
            'Call it in a READ COMMITTED transaction, if possible in a separate one. '
                || 'Creating, completing, retrying and extending messages work at every level.');
    END IF;
END $$;
