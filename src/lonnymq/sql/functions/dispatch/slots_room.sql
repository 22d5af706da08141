-- How many messages the limit over all channels (p_max) allows besides those that run or are in ready; NULL: there is
-- no limit.
CREATE OR REPLACE FUNCTION slots_room (p_max INT)
RETURNS INT LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF p_max IS NULL THEN
        RETURN NULL;
    END IF;
    RETURN GREATEST(0, p_max - COALESCE((
        SELECT cardinality(s.busy) FROM slots s WHERE s.channel = '' ORDER BY s.channel DESC, s.turn DESC
            LIMIT 1), p_max));
END $$;
