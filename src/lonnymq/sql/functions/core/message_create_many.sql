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
    v_later BIGINT := clock_ms();           -- what delays count from
    q RECORD;
BEGIN
    SELECT content_max_bytes, has_bound, has_sizes INTO q FROM queue;
    PERFORM lengths_check(cardinality(p_channels), cardinality(p_contents), cardinality(p_dequeue_ats),
        cardinality(p_headers), cardinality(p_max_attempts), cardinality(p_dedupe_keys), cardinality(p_delays_ms),
        cardinality(p_priorities), cardinality(p_costs), cardinality(p_lanes));
    IF q.has_bound THEN
        PERFORM produce_check(p_channels);
    END IF;
    IF p_lanes IS NOT NULL THEN
        PERFORM lanes_check(p_lanes);
    END IF;
    IF p_delays_ms IS NOT NULL THEN
        PERFORM delay_check(u.delay_ms, u.at, format(' (message %s of %s)', u.ord, cardinality(p_channels)))
        FROM unnest(p_dequeue_ats, p_delays_ms) WITH ORDINALITY u (at, delay_ms, ord);
        p_dequeue_ats := ARRAY(
            SELECT COALESCE(u.at, v_later + u.delay_ms)
            FROM unnest(p_dequeue_ats, p_delays_ms) WITH ORDINALITY u (at, delay_ms, ord) ORDER BY u.ord);
    END IF;
    IF q.has_sizes THEN
        q.has_sizes := EXISTS (
            SELECT FROM (SELECT DISTINCT u.channel FROM unnest(p_channels) u (channel)) u
            CROSS JOIN LATERAL (SELECT FROM channel c WHERE c.name = u.channel AND c.max_size IS NOT NULL OFFSET 0) c);
    END IF;
    IF q.has_sizes OR array_remove(p_dedupe_keys, NULL) <> '{}' THEN
        PERFORM FROM unnest(p_channels, p_contents, p_dequeue_ats, p_headers, p_max_attempts, p_dedupe_keys,
            p_priorities,
                p_costs, p_lanes)
            WITH ORDINALITY u (channel, content, at, headers, max_attempts, dedupe_key, priority, cost, lane, ord)
        WHERE NOT message_is_usual(channel, content, at, headers, max_attempts, dedupe_key, NULL, priority, cost, NULL,
                q.content_max_bytes)
            AND message_check(channel, content, at, headers, max_attempts, dedupe_key, NULL, priority, cost, NULL,
                format(' (message %s of %s)', ord, cardinality(p_channels)));
        RETURN QUERY SELECT * FROM message_create_admitted(p_channels, p_contents, p_dequeue_ats, p_headers,
            p_max_attempts, p_dedupe_keys, p_priorities, p_costs, p_lanes, p_raise_full);
    ELSE
        RETURN QUERY
        WITH made AS MATERIALIZED (         -- in the order given: that of a function's rows
            INSERT INTO message (xid, dequeue_at, created_at, max_attempts, cost, priority, lane, channel, headers,
                content)
            SELECT v_xid, COALESCE(at, v_now), v_now, max_attempts, COALESCE(cost, 1), COALESCE(priority, 0),
                COALESCE(lane, 'default'), channel, headers, content
            FROM unnest(p_channels, p_contents, p_dequeue_ats, p_headers, p_max_attempts, p_priorities, p_costs,
                p_lanes)
                WITH ORDINALITY u (channel, content, at, headers, max_attempts, priority, cost, lane, ord)
            WHERE message_is_usual(channel, content, at, headers, max_attempts, NULL, NULL, priority, cost, NULL,
                    q.content_max_bytes)
                OR message_check(channel, content, at, headers, max_attempts, NULL, NULL, priority, cost, NULL,
                    format(' (message %s of %s)', ord, cardinality(p_channels)))
            RETURNING message.id),
        told AS (
            INSERT INTO notice (xid, lo_id, hi_id, n)
            SELECT v_xid, MIN(made.id), MAX(made.id), COUNT(*) FROM made HAVING COUNT(*) > 0)
        SELECT made.id, 'created' FROM made;
    END IF;
    IF p_dequeue_ats IS NOT NULL THEN
        v_now := (SELECT MIN(COALESCE(a, v_now)) FROM unnest(p_dequeue_ats) a);
    END IF;
    IF p_channels <> '{}' THEN
        PERFORM sleep_notify(v_now);
    END IF;
END $$;
