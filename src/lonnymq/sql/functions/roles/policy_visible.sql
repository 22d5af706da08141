-- The policies that the caller may see: those of the channels that its login role is bound to, or all of them if it is
-- not bound. See message_visible. No binding has the channel '', which is that of the queue's own policies.
CREATE OR REPLACE FUNCTION policy_visible ()
RETURNS SETOF policy_log LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path FROM CURRENT SET plan_cache_mode TO force_generic_plan SET enable_seqscan TO off
    SET enable_bitmapscan TO off SET jit TO off AS $$
DECLARE
    v_bound TEXT[] := bound_channels();
BEGIN
    RETURN QUERY
    SELECT x.* FROM unnest(v_bound) c (name)
    CROSS JOIN LATERAL (SELECT * FROM policy_log p WHERE p.channel = c.name OFFSET 0) x
    UNION ALL
    SELECT * FROM policy_log p WHERE v_bound IS NULL;
END $$;
