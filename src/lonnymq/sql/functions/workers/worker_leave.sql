-- A worker has stopped: delete its row. Returns whether there was one.
CREATE OR REPLACE FUNCTION worker_leave (p_id UUID)
RETURNS BOOLEAN LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM unbound_check('worker_leave');
    DELETE FROM worker w WHERE w.id = p_id;
    RETURN FOUND;
END $$;
