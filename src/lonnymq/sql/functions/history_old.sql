-- The history's partitions whose days lie wholly before a time, the oldest first, at most a month of them.
CREATE OR REPLACE FUNCTION history_old (p_before BIGINT)
RETURNS SETOF TEXT LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY
    SELECT c.relname::TEXT FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'finished'::REGCLASS AND c.relname ~ '^finished_[0-9]{8}$' AND c.relname < history_partition(p_before)
    ORDER BY c.relname LIMIT 31;
END $$;
