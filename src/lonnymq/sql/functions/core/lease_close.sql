-- The leases of these messages are over, and the messages are finished or returned: write notices for slots that became
-- free, and delete lease rows that have no message left. A row is examined only if all of its messages are among these,
-- or if its last message is. Other rows stay until their end time, and do no harm. A row may have been split since the
-- caller found it (lease_extend), so its messages are compared one by one. Locks the lease rows in the order of their
-- keys.
CREATE OR REPLACE FUNCTION lease_close (p_endings ending[])
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM lease l WHERE l.ctid = ANY (ARRAY(
        SELECT y.tid
        FROM (
            SELECT e.token, e.last_id, array_agg(e.id ORDER BY e.id) AS ids, BOOL_OR(e.id = e.last_id) AS has_last
            FROM unnest(p_endings) e WHERE e.token IS NOT NULL GROUP BY e.token, e.last_id
                ORDER BY e.token, e.last_id) r
        CROSS JOIN LATERAL (
            SELECT l.ctid AS tid, l.stubs FROM lease l WHERE l.token = r.token AND l.last_id = r.last_id OFFSET 0) x
        CROSS JOIN LATERAL (SELECT l.ctid AS tid FROM lease l WHERE l.ctid = x.tid AND (
            ARRAY(SELECT s.id FROM unnest(x.stubs) s) = r.ids OR r.has_last AND NOT EXISTS (
                SELECT FROM unnest(x.stubs) s
                CROSS JOIN LATERAL (
                    SELECT FROM message m WHERE m.id = s.id AND m.generation = s.generation OFFSET 0) m))
            FOR UPDATE) y));
    PERFORM slots_notify(ARRAY(SELECT DISTINCT e.channel FROM unnest(p_endings) e WHERE e.is_limited));
END $$;
