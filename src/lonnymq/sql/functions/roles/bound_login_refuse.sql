-- Raise the error for a call that a login bound to channels may not make.
CREATE OR REPLACE FUNCTION bound_login_refuse (p_what TEXT, p_hint TEXT)
RETURNS VOID LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM refuse('LM012', format('role %I may not %s', session_user, p_what),
        CASE WHEN EXISTS (SELECT FROM credential) THEN p_hint
             ELSE 'The bindings of roles to channels are lost, as after a restore without the roles. '
                 || 'As the owner of the queue, bind all roles again with credential_bind, in one transaction.' END);
END $$;
