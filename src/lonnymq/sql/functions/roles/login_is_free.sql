-- Whether the caller's login role is free, and not bound to channels.
-- Declared IMMUTABLE on purpose, although the answer depends on the session: the planner calls it while it plans, and
-- then the branch of a view that the login must not see is not in its plan, nor what statistics would tell of it (ADR
-- 18). A plan that was kept may be older than a binding: the views ask bound_channels() again when they run, and
-- credential_bind makes all sessions plan anew.
CREATE OR REPLACE FUNCTION login_is_free ()
RETURNS BOOLEAN LANGUAGE plpgsql IMMUTABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    RETURN bound_channels() IS NULL;
END $$;
