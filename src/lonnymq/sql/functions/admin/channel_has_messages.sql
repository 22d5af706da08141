-- Whether the channel has messages: waiting, leased or dead.
CREATE OR REPLACE FUNCTION channel_has_messages (p_channel TEXT)
RETURNS BOOLEAN LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM dead d WHERE d.channel = p_channel)
        OR EXISTS (SELECT FROM channel_messages(p_channel));
END $$;
