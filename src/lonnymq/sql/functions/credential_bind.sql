-- Bind a login role to channels: it may then produce to and observe these, as far as it has the rights, and do nothing else. An empty
-- array leaves it nothing; NULL frees it. Whom a session belongs to is said by its session_user: SET ROLE does not change it.
CREATE OR REPLACE FUNCTION credential_bind (p_role TEXT, p_channels TEXT[])
RETURNS VOID LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM free_check('credential_bind');
    IF p_role IS NULL OR NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = p_role) THEN
        PERFORM refuse('LM010', format('there is no role %s', COALESCE(quote_ident(p_role), 'without a name')), 'Name a role of this cluster.');
    END IF;
    PERFORM channel_check(c) FROM unnest(p_channels) c;
    PERFORM FROM queue FOR UPDATE;          -- one at a time: has_bound must not miss who is bound at the same moment
    IF p_channels IS NULL THEN
        DELETE FROM credential WHERE role = p_role;
    ELSE
        INSERT INTO credential (role, channels) VALUES (p_role, p_channels) ON CONFLICT (role) DO UPDATE SET channels = EXCLUDED.channels;
    END IF;
    UPDATE queue SET has_bound = EXISTS (SELECT FROM credential);
    PERFORM sleep_copy();
END $$;
