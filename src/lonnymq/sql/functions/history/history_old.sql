-- The names of the history's partitions that lie wholly before a time and that all followers have read: at most 31, any
-- of them. Everybody in the database can keep a partition from being dropped, by a view with its OID as a REGCLASS. If
-- the oldest came first, 31 of these would keep all later ones from being emptied.
CREATE OR REPLACE FUNCTION history_old (p_before BIGINT)
RETURNS SETOF TEXT LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT x.name
    FROM (
        SELECT c.relname::TEXT AS name FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'finished'::REGCLASS AND c.relname ~ '^finished_[0-9]{8}$'
            AND c.relname < history_partition(p_before)
        ORDER BY random() LIMIT 31) x
    WHERE history_is_read(x.name);
END $$;
