-- Those of the stubs whose message exists with this generation, ordered by id. Such a message is in some place or
-- leased; the messages of the other stubs have finished or come back.
CREATE OR REPLACE FUNCTION stubs_alive (p_stubs stub[])
RETURNS stub[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ARRAY(
        SELECT s FROM unnest(p_stubs) s
        CROSS JOIN LATERAL (SELECT FROM message m WHERE m.id = s.id AND m.generation = s.generation OFFSET 0) m
        ORDER BY s.id);
END $$;
