-- The policies of these channels changed ('': that of the queue). Those with a limit get a new list of slots, the
-- others lose theirs.
CREATE OR REPLACE FUNCTION slots_reset (p_channels TEXT[], p_now BIGINT)
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_limited TEXT[] := ARRAY(
        SELECT u.name FROM unnest(p_channels) u (name)
        CROSS JOIN LATERAL channel_limits(u.name) p
        WHERE COALESCE(p.max_concurrency, p.interval_us) IS NOT NULL);
BEGIN
    IF v_limited <> '{}' THEN
        PERFORM slots_create(v_limited, p_now);
    END IF;
    DELETE FROM slots s WHERE s.channel = ANY (ARRAY(
        SELECT unnest(p_channels) EXCEPT SELECT unnest(v_limited)));
END $$;
