-- How many more messages the limit of the queue (p_max) allows to be put into ready. NULL: there is no limit.
CREATE OR REPLACE FUNCTION queue_room (p_max INT)
RETURNS INT LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF p_max IS NULL THEN
        RETURN NULL;
    END IF;
    RETURN GREATEST(0, p_max - COALESCE((
        SELECT cardinality(s.busy) FROM slots_live('') s), p_max));
END $$;
