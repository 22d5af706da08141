-- A channel, or with '' the queue, has a limit and no list of what uses it: what is in ready or leased now, by one snapshot.
CREATE OR REPLACE FUNCTION slots_open (p_channel TEXT, p_now BIGINT)
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO slots (channel, turn, busy, struck_to, struck_at, alarm_at)
    SELECT p_channel, nextval('turn'), COALESCE(array_agg(ROW(x.id, x.generation)::stub), '{}'), COUNT(*), p_now, p_now + 1000
    FROM (
        SELECT r.id, r.generation FROM ready r WHERE r.channel = p_channel OR p_channel = ''
        UNION
        SELECT s.id, s.generation FROM lease l CROSS JOIN LATERAL unnest(l.stubs) s
        CROSS JOIN LATERAL (
            SELECT m.channel FROM message m WHERE m.id = s.id AND m.generation = s.generation OFFSET 0) m
        WHERE m.channel = p_channel OR p_channel = '') x;
    -- Who holds one of them does not say that it came free.
    INSERT INTO alarm (at, channel) VALUES (p_now + 1000, p_channel);
END $$;
