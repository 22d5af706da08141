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
    -- The condition is that of message_check, or a stricter one; the function is called to say what was wrong, if it
    -- was.
    PERFORM message_check(channel, content, at, headers, max_attempts, dedupe_key, delay_ms, priority, cost, lane,
        format(' (message %s of %s)', ord, cardinality(p_channels)))
    FROM unnest(p_channels, p_contents, p_dequeue_ats, p_headers, p_max_attempts, p_dedupe_keys,
            p_delays_ms, p_priorities, p_costs, p_lanes)
        WITH ORDINALITY u (channel, content, at, headers, max_attempts, dedupe_key, delay_ms, priority, cost, lane, ord)
    WHERE (channel <> '' AND octet_length(channel) <= 255 AND octet_length(content) <= q.content_max_bytes
        AND COALESCE(at BETWEEN -9007199254740992 AND 9007199254740992, TRUE)
        AND COALESCE(delay_ms BETWEEN 0 AND 4503599627370496 AND at IS NULL, TRUE) AND lane IS NULL
        AND COALESCE(max_attempts BETWEEN 1 AND 1000000, TRUE)
        AND COALESCE(priority BETWEEN -100 AND 100, TRUE) AND COALESCE(cost BETWEEN 1 AND 1000000, TRUE)
        AND COALESCE(jsonb_typeof(headers) = 'object' AND pg_column_size(headers) < 8192, TRUE)
        AND COALESCE(octet_length(dedupe_key) BETWEEN 1 AND 255, TRUE)) IS NOT TRUE;
    IF q.has_bound THEN
        PERFORM produce_check(p_channels);
    END IF;
    IF p_delays_ms IS NOT NULL THEN
        p_dequeue_ats := ARRAY(
            SELECT COALESCE(u.at, v_later + u.delay_ms)
            FROM unnest(COALESCE(p_dequeue_ats, array_fill(NULL::BIGINT, ARRAY[cardinality(p_delays_ms)])), p_delays_ms)
                WITH ORDINALITY u (at, delay_ms, ord) ORDER BY u.ord);
    END IF;
    IF array_remove(p_dedupe_keys, NULL) <> '{}' OR q.has_sizes AND EXISTS (
        SELECT FROM (SELECT DISTINCT u.channel FROM unnest(p_channels) u (channel)) u
        CROSS JOIN LATERAL (SELECT FROM channel c WHERE c.name = u.channel AND c.max_size IS NOT NULL OFFSET 0) c)
    THEN
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
                u (channel, content, at, headers, max_attempts, priority, cost, lane)
            RETURNING message.id),
        told AS (
            INSERT INTO notice (xid, lo_id, hi_id, n)
            SELECT v_xid, MIN(made.id), MAX(made.id), COUNT(*) FROM made HAVING COUNT(*) > 0)
        SELECT made.id, 'created' FROM made;
    END IF;
    IF cardinality(p_channels) > 0 THEN
        PERFORM sleep_notify((SELECT MIN(COALESCE(a, v_now)) FROM unnest(p_dequeue_ats) a));
    END IF;
END $$;
