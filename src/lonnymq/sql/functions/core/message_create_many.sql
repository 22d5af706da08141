-- Queue many messages, for any mix of channels; ids rise in the order given. One bad element refuses the call.
-- Locks nothing, so calls that name the same channels in opposite orders cannot deadlock; but for dedupe keys and
-- channels with a max_size, whose locks are taken in their order: one call never deadlocks with another. Returns (id,
-- result) a message, in the order given, as message_create does. With p_raise_full, a full channel is an error
-- (LM017) instead of a result, and nothing is created.
CREATE OR REPLACE FUNCTION message_create_many (
    p_channels TEXT[],
    p_contents BYTEA[],
    p_dequeue_ats BIGINT[] DEFAULT NULL,
    p_headers JSONB[] DEFAULT NULL,
    p_max_attempts INT[] DEFAULT NULL,
    p_dedupe_keys TEXT[] DEFAULT NULL,
    p_raise_full BOOLEAN DEFAULT FALSE,
    p_delays_ms BIGINT[] DEFAULT NULL,
    p_priorities INT[] DEFAULT NULL,
    p_costs INT[] DEFAULT NULL,
    p_lanes TEXT[] DEFAULT NULL
) RETURNS TABLE (id BIGINT, result TEXT)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    -- before a limit is looked for: who sets one can see who may not have found it
    v_xid XID8 := pg_current_xact_id();
    v_now BIGINT := transaction_ms();
    v_is_plain BOOLEAN := num_nulls(p_dequeue_ats, p_headers, p_max_attempts, p_dedupe_keys, p_delays_ms, p_priorities,
        p_costs, p_lanes) = 8;
    v_max INT;
    v_is_special BOOLEAN;
    v_is_asleep BOOLEAN := TRUE;            -- somebody is, or may be
    v_lo BIGINT;
BEGIN
    SELECT s.content_max_bytes, s.is_special INTO v_max, v_is_special FROM sleep s ORDER BY s.id DESC LIMIT 1;
    IF NOT v_is_plain OR (cardinality(p_channels) = cardinality(p_contents)) IS NOT TRUE THEN
        PERFORM array_lengths_check(cardinality(p_channels), cardinality(p_contents), cardinality(p_dequeue_ats),
            cardinality(p_headers), cardinality(p_max_attempts), cardinality(p_dedupe_keys), cardinality(p_delays_ms),
            cardinality(p_priorities), cardinality(p_costs), cardinality(p_lanes));
    END IF;
    IF v_is_special THEN
        IF (SELECT q.has_bound FROM queue q) THEN
            PERFORM produce_check(p_channels);
        END IF;
        v_is_special := EXISTS (            -- some have a size
            SELECT FROM (SELECT DISTINCT u.channel FROM unnest(p_channels) u (channel)) u
            CROSS JOIN LATERAL (SELECT FROM channel c WHERE c.name = u.channel AND c.max_size IS NOT NULL OFFSET 0) c);
    END IF;
    IF p_lanes IS NOT NULL THEN
        PERFORM lanes_check(p_lanes);
    END IF;
    IF p_delays_ms IS NOT NULL THEN
        p_dequeue_ats := delays_to_times(p_dequeue_ats, p_delays_ms, clock_ms());
    END IF;
    IF cardinality(p_channels) = 0 THEN
        RETURN;
    ELSIF v_is_special OR array_remove(p_dedupe_keys, NULL) <> '{}' THEN
        RETURN QUERY SELECT * FROM message_create_admitted(p_channels, p_contents, p_dequeue_ats, p_headers,
            p_max_attempts, p_dedupe_keys, p_priorities, p_costs, p_lanes, p_raise_full);
    ELSE
        -- What is unnested in a SELECT list comes in its order, without a copy. The ids will be above the last one.
        v_lo := COALESCE(pg_sequence_last_value('message_id_seq'), 0) + 1;
        IF v_is_plain THEN
            RETURN QUERY
            INSERT INTO message (xid, dequeue_at, created_at, channel, content)
            SELECT v_xid, v_now, v_now, u.channel, u.content
            FROM (SELECT unnest(p_channels) AS channel, unnest(p_contents) AS content,
                generate_series(1, cardinality(p_channels)) AS ord) u
            WHERE octet_length(u.channel) BETWEEN 1 AND 255 AND octet_length(u.content) <= v_max
                OR message_check(u.channel, u.content, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                    format(' (message %s of %s)', u.ord, cardinality(p_channels)))
            RETURNING message.id, 'created';
        ELSE
            RETURN QUERY
            INSERT INTO message (xid, dequeue_at, created_at, max_attempts, cost, priority, lane, channel, headers,
                content)
            SELECT v_xid, COALESCE(at, v_now), v_now, max_attempts, COALESCE(cost, 1), COALESCE(priority, 0),
                COALESCE(lane, 'default'), channel, headers, content
            FROM (SELECT unnest(p_channels) AS channel, unnest(p_contents) AS content, unnest(p_dequeue_ats) AS at,
                unnest(p_headers) AS headers, unnest(p_max_attempts) AS max_attempts, unnest(p_priorities) AS priority,
                unnest(p_costs) AS cost, unnest(p_lanes) AS lane, generate_series(1, cardinality(p_channels)) AS ord) u
            WHERE message_is_usual(channel, content, at, headers, max_attempts, NULL, NULL, priority, cost, NULL, v_max)
                OR message_check(channel, content, at, headers, max_attempts, NULL, NULL, priority, cost, NULL,
                    format(' (message %s of %s)', ord, cardinality(p_channels)))
            RETURNING message.id, 'created';
        END IF;
        -- By now message is locked, and the snapshot of this statement is younger: see sleep_begin.
        INSERT INTO notice (xid, lo_id, hi_id, n)
        VALUES (v_xid, v_lo, currval('message_id_seq'), cardinality(p_channels))
        RETURNING (SELECT s.is_asleep FROM sleep s ORDER BY s.id DESC LIMIT 1) INTO v_is_asleep;
    END IF;
    IF v_is_asleep OR current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM sleep_notify((SELECT MIN(COALESCE(a, v_now)) FROM unnest(COALESCE(p_dequeue_ats, ARRAY[v_now])) a));
    END IF;
END $$;
