-- Who follows the history, up to where, and when it last said so.
CREATE OR REPLACE FUNCTION history_followers ()
RETURNS TABLE (name TEXT, snapshot TEXT, at BIGINT) LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM unbound_check('history_followers');
    RETURN QUERY SELECT f.name::TEXT, f.snapshot::TEXT, f.at FROM follower f ORDER BY f.name;
END $$;
