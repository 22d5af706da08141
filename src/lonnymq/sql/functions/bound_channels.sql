-- The channels that the caller's login role is bound to; NULL: it is free.
CREATE OR REPLACE FUNCTION bound_channels ()
RETURNS TEXT[] LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF (SELECT q.has_bound FROM queue q) THEN
        RETURN (SELECT c.channels FROM credential c WHERE c.role = session_user);
    END IF;
    RETURN NULL;
END $$;
