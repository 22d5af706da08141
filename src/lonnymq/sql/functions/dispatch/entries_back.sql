-- The messages that came back, as far as they are there and have not come back again since.
CREATE OR REPLACE FUNCTION entries_back (p_stubs stub[])
RETURNS entry[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN (
        SELECT array_agg(ROW(m.id, m.generation, -m.priority, m.dequeue_at, m.cost, m.lane, m.channel)::entry)
        FROM unnest(p_stubs) s
        CROSS JOIN LATERAL (SELECT * FROM message m WHERE m.id = s.id AND m.generation = s.generation OFFSET 0) m);
END $$;
