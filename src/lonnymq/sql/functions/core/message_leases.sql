-- The leases of these messages, or of all messages (NULL). It reads all leases, because they have no index by message.
-- A stub whose message has another generation is void and is left out. Locks nothing.
CREATE OR REPLACE FUNCTION message_leases (p_ids BIGINT[])
RETURNS TABLE (
    id BIGINT, generation INT, token UUID, last_id BIGINT, end_at BIGINT, dequeued_at BIGINT, consumer TEXT)
LANGUAGE sql STABLE AS $$
    SELECT s.id, s.generation, l.token, l.last_id, l.end_at, l.dequeued_at, l.consumer
    FROM lease l
    CROSS JOIN unnest(l.stubs) s
    CROSS JOIN LATERAL (SELECT FROM message m WHERE m.id = s.id AND m.generation = s.generation OFFSET 0) m
    WHERE p_ids IS NULL
        OR l.last_id >= (SELECT MIN(u) FROM unnest(p_ids) u) AND (l.stubs[1]).id <= (SELECT MAX(u) FROM unnest(p_ids) u)
            AND COALESCE(s.id IN (SELECT u FROM unnest(p_ids) u), FALSE) -- COALESCE: by hash
$$;
