-- Lock messages in the order of their ids. Returns the ids of those that exist.
CREATE OR REPLACE FUNCTION message_lock (p_ids BIGINT[])
RETURNS BIGINT[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN ARRAY(
        SELECT m.id FROM (SELECT DISTINCT g AS id FROM unnest(p_ids) g ORDER BY 1) u
        CROSS JOIN LATERAL (SELECT m.id FROM message m WHERE m.id = u.id OFFSET 0 FOR UPDATE) m);
END $$;
