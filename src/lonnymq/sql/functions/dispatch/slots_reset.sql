-- The policies of these channels changed ('': that of the queue). Those with a limit get a new list of slots, the
-- others lose theirs.
CREATE OR REPLACE FUNCTION slots_reset (p_channels TEXT[], p_now BIGINT)
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_limited TEXT[] := ARRAY(
        SELECT u.name FROM unnest(p_channels) u (name)
        CROSS JOIN LATERAL (
            SELECT FROM channel c
            WHERE c.name = u.name AND (c.max_concurrency IS NOT NULL OR c.release_interval_ms > 0) OFFSET 0) c
        UNION
        SELECT '' FROM queue q WHERE q.max_concurrency IS NOT NULL AND '' = ANY (p_channels));
BEGIN
    IF v_limited <> '{}' THEN
        PERFORM slots_create(v_limited, p_now);
    END IF;
    DELETE FROM slots s WHERE s.channel = ANY (ARRAY(
        SELECT unnest(p_channels) EXCEPT SELECT unnest(v_limited)));
END $$;
