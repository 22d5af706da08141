-- Part of slots_create: of the entries that were out, those that are no longer in ready (p_ready). They were taken, and
-- a later dispatch reads the notice of that, or they were cancelled: slots_check_out looks at them again.
CREATE OR REPLACE FUNCTION slots_out_unread (p_out stub[], p_ready stub[])
RETURNS stub[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ARRAY(
        SELECT o FROM unnest(p_out) o
        WHERE COALESCE((o.id, o.generation) NOT IN (SELECT r.id, r.generation FROM unnest(p_ready) r), TRUE));
END $$;
