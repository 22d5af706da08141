-- The names of the channels that the caller may see: those that its login role is bound to; or if it is free, those that have a policy, a place in
-- the ring, dead messages or a tally.
CREATE OR REPLACE FUNCTION channel_visible ()
RETURNS SETOF TEXT LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    v_bound TEXT[] := bound_channels();
BEGIN
    IF v_bound IS NOT NULL THEN
        RETURN QUERY SELECT c FROM unnest(v_bound) c;
    ELSE
        RETURN QUERY
        SELECT c.name::TEXT FROM channel c UNION SELECT r.channel FROM ring r UNION SELECT d.channel FROM dead d UNION SELECT t.channel FROM tally t;
    END IF;
END $$;
