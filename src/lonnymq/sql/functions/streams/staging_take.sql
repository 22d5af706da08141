-- Delete the first rows that the caller's login role has staged under some batches, in the order of the batches and
-- their rows, and return their messages in any order: at most p_limit rows, up to and including the one with which
-- content and headers exceed p_max_bytes.
-- A row that is staged while this runs is taken with the others, or stays: only rows that were read are deleted.
CREATE OR REPLACE FUNCTION staging_take (p_batches UUID[], p_limit INT, p_max_bytes INT)
RETURNS TABLE (batch UUID, ord BIGINT, message new_message) LANGUAGE sql AS $$
WITH gone AS (
    DELETE FROM staging g WHERE g.ctid = ANY (ARRAY(
        SELECT z.tid
        FROM (
            SELECT x.tid, SUM(x.bytes) OVER (ORDER BY b.n, x.ord ROWS UNBOUNDED PRECEDING) - x.bytes AS before
            FROM unnest(p_batches) WITH ORDINALITY b (batch, n)
            CROSS JOIN LATERAL (
                SELECT y.ctid AS tid, y.ord,
                    COALESCE(octet_length(y.content), 0) + COALESCE(pg_column_size(y.headers), 0) AS bytes
                FROM staging y
                WHERE y.batch = b.batch AND y.staged_by = quote_ident(session_user)::REGROLE
                ORDER BY y.batch, y.ord LIMIT p_limit) x
            WHERE b.n = array_position(p_batches, b.batch)) z
        WHERE z.before <= p_max_bytes
        LIMIT p_limit))
    RETURNING g.batch, g.ord, g::new_message AS message)
SELECT x.batch, x.ord, x.message FROM gone x
$$;
