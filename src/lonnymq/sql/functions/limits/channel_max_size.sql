-- How many messages a channel may have, by its own policy or by that of the queue; NULL: no limit.
CREATE OR REPLACE FUNCTION channel_max_size (p_channel TEXT)
RETURNS INT LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT p.max_size FROM channel_limits(p_channel) p);
END $$;
