-- How many of a channel's slots are taken by leased messages: a slot is busy while its message is there, and then it
-- is leased unless ready still has it.
CREATE OR REPLACE FUNCTION slots_leased (p_channel TEXT, p_busy stub[])
RETURNS BIGINT LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT COUNT(*) FROM (
            SELECT b.id FROM unnest(p_busy) b
            CROSS JOIN LATERAL (SELECT FROM message m WHERE m.id = b.id AND m.generation = b.generation OFFSET 0) m
            EXCEPT
            SELECT r.id FROM ready r WHERE r.channel = p_channel) x);
END $$;
