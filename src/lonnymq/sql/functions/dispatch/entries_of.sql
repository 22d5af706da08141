-- The messages of these stubs, as entries. Those that are gone, or have a new generation, are left out.
CREATE OR REPLACE FUNCTION entries_of (p_stubs stub[])
RETURNS entry[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN (
        SELECT array_agg(ROW(m.id, m.generation, -m.priority, m.dequeue_at, m.cost, m.lane, m.channel)::entry)
        FROM unnest(p_stubs) s
        CROSS JOIN LATERAL (SELECT * FROM message m WHERE m.id = s.id AND m.generation = s.generation OFFSET 0) m);
END $$;
