-- The roles that are bound, and their channels.
CREATE OR REPLACE FUNCTION credential_list ()
RETURNS TABLE (role TEXT, channels TEXT[]) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM unbound_check('credential_list');
    RETURN QUERY
    SELECT COALESCE(r.rolname, c.name)::TEXT, c.channels
    FROM credential c LEFT JOIN pg_roles r ON r.oid = c.role ORDER BY 1;
END $$;
