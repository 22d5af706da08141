-- The channels that have slots or leased messages: those that need new slots when the limits that channels inherit
-- change. Those with entries in ready are known to the caller.
CREATE OR REPLACE FUNCTION slots_channels ()
RETURNS TEXT[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ARRAY(
        SELECT s.channel FROM slots s
        UNION
        SELECT m.channel FROM lease l CROSS JOIN LATERAL unnest(l.stubs) s
        CROSS JOIN LATERAL (
            SELECT m.channel FROM message m WHERE m.id = s.id AND m.generation = s.generation OFFSET 0) m);
END $$;
