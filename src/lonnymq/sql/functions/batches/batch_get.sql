-- The state of one batch; no row if there is none with this id.
CREATE OR REPLACE FUNCTION batch_get (p_id BIGINT)
RETURNS SETOF batch_status LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM unbound_check('batch_get');
    RETURN QUERY SELECT * FROM batch_status_of(ARRAY[p_id]);
END $$;
