-- Forget a follower of the history. Returns whether it existed.
CREATE OR REPLACE FUNCTION history_unfollow (p_name TEXT)
RETURNS BOOLEAN LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM unbound_check('history_unfollow');
    DELETE FROM follower f WHERE f.name = p_name;
    RETURN FOUND;
END $$;
