-- Queue many messages, for any mix of channels; ids rise in the order given. One bad element refuses the call.
-- Locks nothing, so calls that name the same channels in opposite orders cannot deadlock; but for dedupe keys and channels with a
-- max_size, whose locks are taken in their order: one call never deadlocks with another.
-- Returns (id, result) a message, in the order given, as message_create does. With p_raise_full, a full channel is an error (LM017)
-- instead of a result, and nothing is created.
CREATE OR REPLACE FUNCTION message_create_many (
    p_channels TEXT[],
    p_contents BYTEA[],
    p_dequeue_ats BIGINT[] DEFAULT NULL,
    p_headers JSONB[] DEFAULT NULL,
    p_max_attempts INT[] DEFAULT NULL,
    p_dedupe_keys TEXT[] DEFAULT NULL,
    p_raise_full BOOLEAN DEFAULT FALSE
) RETURNS TABLE (id BIGINT, result TEXT)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    v_xid XID8 := pg_current_xact_id();     -- before a limit is looked for: who sets one can then see who may not have found it
    v_now BIGINT := transaction_ms();
    q RECORD;
    v_is_admitted BOOLEAN;                  -- one by one, by keys and sizes
BEGIN
    SELECT content_max_bytes, has_bound, has_sizes INTO q FROM queue;
    PERFORM lengths_check(cardinality(p_channels), cardinality(p_contents), cardinality(p_dequeue_ats),
        cardinality(p_headers), cardinality(p_max_attempts), cardinality(p_dedupe_keys));
    -- The condition is that of message_check, or a stricter one; the function is called to say what was wrong, if it was.
    PERFORM message_check(channel, content, at, headers, max_attempts, dedupe_key, format(' (message %s of %s)', ord, cardinality(p_channels)))
    FROM unnest(p_channels, p_contents, p_dequeue_ats, p_headers, p_max_attempts, p_dedupe_keys)
        WITH ORDINALITY u (channel, content, at, headers, max_attempts, dedupe_key, ord)
    WHERE (channel <> '' AND octet_length(channel) <= 255 AND octet_length(content) <= q.content_max_bytes
        AND COALESCE(at BETWEEN -9007199254740992 AND 9007199254740992, TRUE)
        AND COALESCE(max_attempts BETWEEN 1 AND 1000000, TRUE)
        AND COALESCE(jsonb_typeof(headers) = 'object' AND pg_column_size(headers) < 8192, TRUE)
        AND COALESCE(octet_length(dedupe_key) BETWEEN 1 AND 255, TRUE)) IS NOT TRUE;
    IF q.has_bound THEN
        PERFORM produce_check(p_channels);
    END IF;
    v_is_admitted := COALESCE(array_remove(p_dedupe_keys, NULL) <> '{}', FALSE);
    IF q.has_sizes THEN
        v_is_admitted := v_is_admitted OR EXISTS (
            SELECT FROM (SELECT DISTINCT u.channel FROM unnest(p_channels) u (channel)) u
            CROSS JOIN LATERAL (SELECT FROM channel c WHERE c.name = u.channel AND c.max_size IS NOT NULL OFFSET 0) c);
    END IF;
    IF v_is_admitted THEN
        RETURN QUERY SELECT * FROM message_create_admitted(p_channels, p_contents, p_dequeue_ats, p_headers, p_max_attempts, p_dedupe_keys, v_now, p_raise_full);
    ELSE
        RETURN QUERY
        WITH made AS MATERIALIZED (         -- in the order given: that of a function's rows
            INSERT INTO message (channel, dequeue_at, created_at, headers, max_attempts, content)
            SELECT channel, COALESCE(at, v_now), v_now, headers, max_attempts, content
            FROM unnest(p_channels, p_contents, p_dequeue_ats, p_headers, p_max_attempts) u (channel, content, at, headers, max_attempts)
            RETURNING message.id, channel, dequeue_at),
        woken AS (                          -- bounds of their positions; where the times differ, not the tightest
            INSERT INTO wake (channel, lo_at, lo_id, hi_at, hi_id, n)
            SELECT channel, MIN(dequeue_at), MIN(made.id), MAX(dequeue_at), MAX(made.id), COUNT(*) FROM made GROUP BY channel)
        SELECT made.id, 'created' FROM made;
    END IF;
    IF cardinality(p_channels) > 0 THEN
        PERFORM wake_notify((SELECT MIN(COALESCE(a, v_now)) FROM unnest(p_dequeue_ats) a));
    END IF;
END $$;
