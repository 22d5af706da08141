-- Who is bound to which channels.
CREATE OR REPLACE FUNCTION credential_list ()
RETURNS TABLE (role TEXT, channels TEXT[]) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM free_check('credential_list');
    RETURN QUERY SELECT c.role, c.channels FROM credential c ORDER BY c.role;
END $$;
