-- How many of a channel's slots belong to leased messages: those whose message exists and is not in ready.
CREATE OR REPLACE FUNCTION slots_leased (p_channel TEXT, p_busy stub[])
RETURNS BIGINT LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT COUNT(*) FROM (
            SELECT b.id FROM unnest(stubs_alive(p_busy)) b
            EXCEPT
            SELECT r.id FROM ready r WHERE r.channel = p_channel) x);
END $$;
