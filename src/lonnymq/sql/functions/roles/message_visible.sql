-- The messages that the caller may see: those of the channels that its login role is bound to, or all if it is free. p_leased: TRUE for the
-- leased ones, FALSE for those that wait, NULL for both. Without tokens, which only who holds a lease may know.
-- The plan of a bound login shows this function and nothing below it, and it reads no row or index entry of other channels (ADR 18).
CREATE OR REPLACE FUNCTION message_visible (p_leased BOOLEAN DEFAULT NULL)
RETURNS SETOF message LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path FROM CURRENT SET plan_cache_mode TO force_generic_plan SET enable_seqscan TO off SET enable_bitmapscan TO off SET jit TO off AS $$
DECLARE
    v_bound TEXT[] := bound_channels();
    v_message message;
BEGIN
    FOR v_message IN
        SELECT x.* FROM unnest(v_bound) c (name)
        CROSS JOIN LATERAL (SELECT * FROM message m WHERE NOT m.leased AND m.channel = c.name OFFSET 0) x
        WHERE p_leased IS NOT TRUE
        UNION ALL
        SELECT x.* FROM unnest(v_bound) c (name)
        CROSS JOIN LATERAL (SELECT * FROM message m WHERE m.leased::INT = 1 AND m.channel = c.name OFFSET 0) x
        WHERE p_leased IS NOT FALSE
        UNION ALL
        SELECT * FROM message m WHERE v_bound IS NULL AND (p_leased IS NULL OR m.leased = p_leased)
    LOOP
        v_message.token := NULL;
        RETURN NEXT v_message;
    END LOOP;
END $$;
