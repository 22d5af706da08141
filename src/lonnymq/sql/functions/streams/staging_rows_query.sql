-- The SELECT that reads the messages of a chunk, in their order: a subquery of statements in which x is a row of
-- staging_chunk. It returns (ord, message), and refuses arrays that differ in length. It is written from the columns of
-- new_message and new_messages, so that a new option needs no change here. Elements that are unnested in a SELECT list
-- come in their order, without a copy.
CREATE OR REPLACE FUNCTION staging_rows_query ()
RETURNS TEXT LANGUAGE sql STABLE AS $$
-- Chunks have no array for delay_ms, so o.name is NULL for it. Their headers are texts.
SELECT format('SELECT u.ord, ROW(%s)::new_message AS message FROM ('
    || 'SELECT generate_series(x.ord, x.ord - 1 + array_lengths_check(%s)) AS ord, %s) u',
    string_agg(COALESCE('u.' || o.name, 'NULL'), ', ' ORDER BY f.attnum),
    string_agg('cardinality(x.' || o.name || ')', ', ' ORDER BY f.attnum),
    string_agg('unnest(x.' || o.name || ')::' || format_type(f.atttypid, -1) || ' AS ' || o.name, ', '))
FROM pg_attribute f
LEFT JOIN LATERAL (
    SELECT quote_ident(f.attname) AS name FROM pg_attribute a
    WHERE a.attrelid = 'new_messages'::REGCLASS AND a.attname = f.attname) o ON TRUE
WHERE f.attrelid = 'new_message'::REGCLASS AND f.attnum > 0 AND NOT f.attisdropped
$$;
