-- Bind a role to channels: logins that are this role, or members of it, may then produce to and observe these channels,
-- as far as they have the rights, and do nothing else. An empty array leaves them nothing; NULL removes the binding,
-- also that of a role that was dropped. It takes effect with the commit. Waits for other calls that bind, for queue_set
-- and for an upgrade.
CREATE OR REPLACE FUNCTION credential_bind (p_role TEXT, p_channels TEXT[])
RETURNS VOID LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    v_role REGROLE := to_regrole(quote_ident(p_role));
BEGIN
    PERFORM unbound_check('credential_bind');
    PERFORM channel_check(c) FROM unnest(p_channels) c;
    PERFORM FROM installation FOR SHARE;    -- not during an upgrade, which replaces login_is_free()
    PERFORM FROM queue FOR UPDATE;          -- one at a time, so that has_bound is right
    PERFORM credential_renew();
    DELETE FROM credential c WHERE c.role = v_role OR v_role IS NULL AND c.name = p_role;
    IF v_role IS NULL AND NOT (FOUND AND p_channels IS NULL) THEN
        PERFORM refuse('LM010', format('there is no role %s', COALESCE(quote_ident(p_role), 'without a name')),
            'Name a role of this cluster.');
    END IF;
    IF p_channels IS NOT NULL THEN
        INSERT INTO credential (role, name, channels) VALUES (v_role, p_role, p_channels);
    END IF;
    UPDATE queue SET has_bound = EXISTS (SELECT FROM credential);
    PERFORM sleep_copy_settings();
    ALTER FUNCTION login_is_free() IMMUTABLE; -- changes nothing, but makes all sessions discard plans that used it
END $$;
