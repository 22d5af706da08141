-- Part of channel_delete: delete everything that is stored about a channel without messages. The caller has locked its
-- policy, if it had one.
CREATE OR REPLACE FUNCTION channel_forget (p_channel TEXT, p_has_policy BOOLEAN)
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    -- A policy that is created at this moment, and could not be locked before, stays: it is newer than this call. So do
    -- its size and its departures: one statement deletes both, by one snapshot.
    DELETE FROM channel c WHERE p_has_policy AND c.name = p_channel;
    IF p_has_policy THEN
        PERFORM policy_log_write(p_channel);
        INSERT INTO policy_change (channel) VALUES (p_channel);
    END IF;
    WITH no_size AS (
        DELETE FROM capacity c
        WHERE c.channel = p_channel AND NOT EXISTS (SELECT FROM channel x WHERE x.name = p_channel))
    DELETE FROM departure d
    WHERE d.channel = p_channel AND NOT EXISTS (SELECT FROM channel x WHERE x.name = p_channel);
    -- A message that was created meanwhile keeps its key. A key that another transaction takes at this moment is
    -- skipped: that transaction may wait for this one.
    PERFORM dedupe_delete(ARRAY(
        SELECT x.ctid FROM dedupe x WHERE x.channel = p_channel AND x.message_id IS NOT NULL
        ORDER BY x.channel, x.key FOR UPDATE SKIP LOCKED), NULL);
    -- served_by before tally: the order in which the dispatcher locks them.
    UPDATE served_by b SET shares = ARRAY(SELECT s FROM unnest(b.shares) s WHERE s.channel <> p_channel)
    WHERE EXISTS (SELECT FROM unnest(b.shares) s WHERE s.channel = p_channel);
    DELETE FROM tally t WHERE t.channel = p_channel;
END $$;
