-- The state of these batches, by one snapshot, the newest first. leased is counted by reading all leases. waiting is
-- what is left, including callbacks of other batches that belong to a batch and do not exist yet.
CREATE OR REPLACE FUNCTION batch_status_of (p_ids BIGINT[])
RETURNS SETOF batch_status LANGUAGE sql STABLE AS $$
    WITH leased AS MATERIALIZED (
        SELECT m.batch_id, COUNT(*) AS n
        FROM lease l
        CROSS JOIN unnest(l.stubs) s
        CROSS JOIN LATERAL (
            SELECT m.batch_id FROM message m
            WHERE m.id = s.id AND m.generation = s.generation AND m.batch_id = ANY (p_ids) OFFSET 0) m
        GROUP BY m.batch_id)
    SELECT b.id, b.name::TEXT,
        CASE WHEN b.cancelled_at IS NOT NULL THEN 'cancelled' WHEN (x.c).finished_at IS NOT NULL THEN 'finished'
            WHEN b.closed_at IS NOT NULL THEN 'closed' ELSE 'open' END,
        t.n, t.n - (x.c).completed - (x.c).dead - (x.c).cancelled - COALESCE(l.n, 0), COALESCE(l.n, 0),
        (x.c).completed, (x.c).dead, (x.c).cancelled, b.created_at, b.closed_at, b.cancelled_at, (x.c).failed_at,
        (x.c).failed_id, (x.c).finished_at
    FROM unnest(p_ids) u (id)
    CROSS JOIN LATERAL (SELECT * FROM batch b WHERE b.id = u.id OFFSET 0) b
    CROSS JOIN LATERAL (SELECT c FROM batch_count c WHERE c.batch_id = u.id ORDER BY c.turn DESC LIMIT 1) x
    CROSS JOIN LATERAL (SELECT batch_total(x.c) AS n OFFSET 0) t
    LEFT JOIN leased l ON l.batch_id = u.id
    ORDER BY b.id DESC
$$;
