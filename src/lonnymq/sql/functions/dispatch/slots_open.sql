-- A channel, or with '' the queue, has a limit: list what uses it, which is what is in ready or leased now, by one
-- snapshot. The last release is what is known of it.
CREATE OR REPLACE FUNCTION slots_open (p_channel TEXT, p_now BIGINT)
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_released BIGINT := GREATEST(
        (SELECT s.released_at FROM slots s WHERE s.channel = p_channel ORDER BY s.turn DESC LIMIT 1),
        (SELECT y.served_at FROM tally y WHERE y.channel = p_channel),
        (SELECT MAX(x.at) FROM served_by b CROSS JOIN unnest(b.shares) x WHERE x.channel = p_channel));
BEGIN
    DELETE FROM slots s WHERE s.channel = p_channel;
    INSERT INTO slots (channel, turn, busy, struck_to, struck_at, changed_at, is_quiet, alarm_at, released_at)
    SELECT p_channel, nextval('turn'), COALESCE(array_agg(ROW(x.id, x.generation)::stub), '{}'), COUNT(*), p_now,
        p_now, COUNT(*) > 0, p_now + 1000, v_released
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
