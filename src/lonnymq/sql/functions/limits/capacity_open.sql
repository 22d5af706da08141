-- Start to count a channel's messages, or continue. The caller has locked the channel's policy. Messages that are
-- already there and were not counted take up room as long as they are there.
CREATE OR REPLACE FUNCTION capacity_open (p_channel TEXT, p_max INT)
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_sizes_turn BIGINT;
BEGIN
    UPDATE queue SET has_sizes = TRUE WHERE NOT has_sizes;
    IF FOUND THEN
        PERFORM sleep_copy_settings();
    END IF;
    SELECT q.sizes_turn INTO v_sizes_turn FROM queue q;
    PERFORM FROM capacity c WHERE c.channel = p_channel ORDER BY c.turn DESC LIMIT 1 FOR UPDATE;
    IF FOUND THEN
        UPDATE capacity
        SET turn = nextval('turn'), uncounted = capacity_count_uncounted(p_channel, p_max), recounted_at = clock_ms(),
            sizes_turn = v_sizes_turn, open_xids = NULL
        WHERE channel = p_channel;
    ELSE
        INSERT INTO capacity (channel, turn, size, uncounted, recounted_at, sizes_turn)
        VALUES (p_channel, nextval('turn'), 0, capacity_count_uncounted(p_channel, p_max), clock_ms(), v_sizes_turn);
    END IF;
END $$;
