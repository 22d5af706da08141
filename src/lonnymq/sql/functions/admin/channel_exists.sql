-- Whether anything is stored about the channel: a policy, statistics, a dedupe key, a message.
CREATE OR REPLACE FUNCTION channel_exists (p_channel TEXT)
RETURNS BOOLEAN LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM channel c WHERE c.name = p_channel)
        OR EXISTS (SELECT FROM tally t WHERE t.channel = p_channel)
        OR EXISTS (SELECT FROM dedupe d WHERE d.channel = p_channel)
        OR EXISTS (SELECT FROM served_by b CROSS JOIN unnest(b.shares) s WHERE s.channel = p_channel)
        OR channel_has_messages(p_channel);
END $$;
