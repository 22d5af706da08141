-- Part of letting messages in: lock a channel's size, until the transaction ends, and say how many more fit. Where fewer than p_wanted do, departures
-- are taken off first; and messages from before the limit, which leave without a word, are counted again, once a second at most.
CREATE OR REPLACE FUNCTION capacity_room (p_channel TEXT, p_max INT, p_wanted INT)
RETURNS BIGINT LANGUAGE plpgsql
SET plan_cache_mode TO force_generic_plan SET enable_seqscan TO off SET enable_bitmapscan TO off SET jit TO off AS $$
DECLARE
    c capacity;
    v_now BIGINT := clock_ms();
    v_left BIGINT := 0;
BEGIN
    SELECT * INTO c FROM capacity x WHERE x.channel = p_channel ORDER BY x.turn DESC LIMIT 1 FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;                        -- the channel was deleted meanwhile, and its limit with it
    END IF;
    IF c.size + c.uncounted + p_wanted > p_max THEN
        WITH gone AS (DELETE FROM departure d WHERE d.channel = p_channel RETURNING 1) SELECT COUNT(*) INTO v_left FROM gone;
        c.size := c.size - v_left;
        IF c.uncounted > 0 AND c.size + c.uncounted + p_wanted > p_max AND abs(v_now - c.recounted_at) >= 1000 THEN
            c.uncounted := capacity_uncounted(p_channel, p_max);
            c.recounted_at := v_now;
            v_left := 1;
        END IF;
        IF v_left > 0 THEN
            UPDATE capacity x SET turn = nextval('turn'), size = c.size, uncounted = c.uncounted, recounted_at = c.recounted_at
            WHERE x.channel = p_channel AND x.turn = c.turn;
        END IF;
    END IF;
    RETURN GREATEST(0, p_max - c.size - c.uncounted);
END $$;
