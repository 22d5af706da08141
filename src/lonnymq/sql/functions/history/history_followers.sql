-- The followers of the history: their positions, and when they last reported them.
CREATE OR REPLACE FUNCTION history_followers ()
RETURNS TABLE (name TEXT, snapshot TEXT, at BIGINT) LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM unbound_check('history_followers');
    RETURN QUERY SELECT f.name::TEXT, f.snapshot::TEXT, f.at FROM follower f ORDER BY f.name;
END $$;
