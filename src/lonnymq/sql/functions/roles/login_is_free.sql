-- Whether the caller's login role is not bound to channels.
-- Declared IMMUTABLE on purpose, although the answer depends on the session: the planner calls it while it plans, so
-- the branch of a view that the login must not see is not in its plan, and neither are its statistics (ADR 18). A
-- cached plan may be older than a binding: the views therefore call bound_channels() again when they run, and
-- credential_bind makes all sessions plan again.
CREATE OR REPLACE FUNCTION login_is_free ()
RETURNS BOOLEAN LANGUAGE plpgsql IMMUTABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    RETURN bound_channels() IS NULL;
END $$;
