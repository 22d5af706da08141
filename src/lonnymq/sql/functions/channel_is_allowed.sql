-- Whether the caller may see the channel and produce to it.
CREATE OR REPLACE FUNCTION channel_is_allowed (p_channel TEXT)
RETURNS BOOLEAN LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_bound TEXT[] := bound_channels();
BEGIN
    RETURN v_bound IS NULL OR COALESCE(p_channel = ANY (v_bound), FALSE);
END $$;
