-- The history that the caller may see, of messages that finished from p_from to p_to: that of the channels that its
-- login role is bound to, or all of it if it is not bound. See message_visible. A bound login with a long history
-- should ask for a part of it here: the view history reads all of it.
CREATE OR REPLACE FUNCTION finished_visible (p_from BIGINT DEFAULT NULL, p_to BIGINT DEFAULT NULL)
RETURNS SETOF finished LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path FROM CURRENT SET plan_cache_mode TO force_generic_plan SET enable_seqscan TO off
    SET enable_bitmapscan TO off SET jit TO off AS $$
DECLARE
    v_bound TEXT[] := bound_channels();
    v_from BIGINT := COALESCE(p_from, -9223372036854775808);
    v_to BIGINT := COALESCE(p_to, 9223372036854775807);
BEGIN
    RETURN QUERY
    SELECT x.* FROM unnest(v_bound) c (name)
    CROSS JOIN LATERAL (
        SELECT * FROM finished f WHERE f.channel = c.name AND f.finished_at BETWEEN v_from AND v_to OFFSET 0) x
    UNION ALL
    SELECT * FROM finished f WHERE v_bound IS NULL AND f.finished_at BETWEEN v_from AND v_to;
END $$;
