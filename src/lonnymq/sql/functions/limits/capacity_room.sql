-- Part of admitting messages: lock a channel's size until the transaction ends, and return how many more messages fit;
-- NULL: the channel has no limit, or no longer has one.
-- If fewer than p_wanted fit, departures are subtracted first, at most 1,000 + p_wanted rows. Messages from before the
-- limit do not append departures, so they are counted again, at most once per second. They are also counted again when
-- a transaction has ended that was open when the limit was set, and may not have seen it.
CREATE OR REPLACE FUNCTION capacity_room (p_channel TEXT, p_wanted INT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    c capacity;
    v_read capacity;
    v_is_changed BOOLEAN := FALSE;
    v_max INT;
    v_sizes_turn BIGINT;
    v_now BIGINT := clock_ms();
    v_snapshot PG_SNAPSHOT;
BEGIN
    SELECT * INTO c FROM capacity x WHERE x.channel = p_channel ORDER BY x.turn DESC LIMIT 1 FOR UPDATE;
    -- Read after the wait for the lock: a change that was committed meanwhile applies.
    SELECT p.max_size, q.sizes_turn INTO v_max, v_sizes_turn FROM queue q CROSS JOIN channel_limits(p_channel) p;
    IF v_max IS NOT NULL AND c.channel IS NULL THEN
        -- The channel inherits its limit and is new, it was deleted and limited again during the wait, or its size is
        -- missing. The policy is updated, not only locked, so that two producers cannot both create a size: the second
        -- one waits, and above READ COMMITTED it fails with 40001. A channel without a policy gets one that inherits.
        -- A policy that was deleted after the snapshot fails with 40001, too: it would be visible beside the new one.
        PERFORM FROM channel x WHERE x.name = p_channel FOR NO KEY UPDATE;
        INSERT INTO channel AS x (name) SELECT p_channel FROM queue q WHERE q.channel_max_size IS NOT NULL
        ON CONFLICT (name) DO UPDATE SET max_size = x.max_size;
        IF NOT FOUND THEN
            UPDATE channel x SET max_size = x.max_size WHERE x.name = p_channel;
        END IF;
        v_max := channel_max_size(p_channel);
        IF v_max IS NOT NULL THEN
            IF NOT EXISTS (SELECT FROM capacity x WHERE x.channel = p_channel) THEN
                PERFORM capacity_open(p_channel, v_max);
            END IF;
            SELECT * INTO STRICT c FROM capacity x WHERE x.channel = p_channel ORDER BY x.turn DESC LIMIT 1 FOR UPDATE;
        END IF;
    END IF;
    IF v_max IS NULL THEN
        RETURN NULL;
    END IF;
    v_snapshot := pg_current_snapshot();
    IF c.sizes_turn <> v_sizes_turn THEN    -- the limit that channels inherit has changed
        c.open_xids := NULL;
    END IF;
    IF c.open_xids IS NULL OR EXISTS (SELECT FROM unnest(c.open_xids) x WHERE pg_visible_in_snapshot(x, v_snapshot))
    THEN
        c.open_xids := ARRAY(
            SELECT x FROM pg_snapshot_xip(v_snapshot) x
            WHERE x <> pg_current_xact_id() AND (c.open_xids IS NULL OR x = ANY (c.open_xids)));
        c.uncounted := capacity_count_uncounted(p_channel, v_max);
        c.sizes_turn := v_sizes_turn;
        v_is_changed := TRUE;
    END IF;
    IF c.size + c.uncounted + p_wanted > v_max THEN
        v_read := capacity_apply_departures(c, 1000 + p_wanted);
        -- If no departure was found, the new position is written only if it saves much reading.
        v_is_changed := v_is_changed OR v_read.size < c.size OR c.read_to IS NULL
            OR (SELECT COUNT(*) >= 10 FROM pg_snapshot_xip(c.read_to) x WHERE pg_visible_in_snapshot(x, v_snapshot));
        c := v_read;
        IF c.uncounted > 0 AND c.size + c.uncounted + p_wanted > v_max AND abs(v_now - c.recounted_at) >= 1000 THEN
            c.uncounted := capacity_count_uncounted(p_channel, v_max);
            c.recounted_at := v_now;
            v_is_changed := TRUE;
        END IF;
    END IF;
    IF v_is_changed THEN
        UPDATE capacity x
        SET turn = nextval('turn'), size = c.size, uncounted = c.uncounted, recounted_at = c.recounted_at,
            sizes_turn = c.sizes_turn, open_xids = c.open_xids, read_to = c.read_to, started_at = c.started_at
        WHERE x.channel = p_channel AND x.turn = c.turn;
    END IF;
    RETURN GREATEST(0, v_max - c.size - c.uncounted);
END $$;
