-- Queue many messages, for any mix of channels; ids rise in the order given. One bad element refuses the call.
-- Locks nothing: calls that name the same channels in opposite orders cannot deadlock.
-- Returns (id, 'created') a message, in the order given.
CREATE OR REPLACE FUNCTION message_create_many (
    p_channels TEXT[],
    p_contents BYTEA[],
    p_dequeue_ats BIGINT[] DEFAULT NULL,
    p_headers JSONB[] DEFAULT NULL,
    p_max_attempts INT[] DEFAULT NULL
) RETURNS TABLE (id BIGINT, result TEXT)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    v_now BIGINT := transaction_ms();
    v_bytes INT := (SELECT content_max_bytes FROM queue);
BEGIN
    PERFORM lengths_check(cardinality(p_channels), cardinality(p_contents), cardinality(p_dequeue_ats),
        cardinality(p_headers), cardinality(p_max_attempts));
    -- The condition is that of message_check; the function is called only to say what was wrong.
    PERFORM message_check(channel, content, at, headers, max_attempts, format(' (message %s of %s)', ord, cardinality(p_channels)))
    FROM unnest(p_channels, p_contents, p_dequeue_ats, p_headers, p_max_attempts)
        WITH ORDINALITY u (channel, content, at, headers, max_attempts, ord)
    WHERE (channel <> '' AND octet_length(channel) <= 255 AND octet_length(content) <= v_bytes
        AND COALESCE(at BETWEEN -9007199254740992 AND 9007199254740992, TRUE)
        AND COALESCE(max_attempts BETWEEN 1 AND 1000000, TRUE) AND headers IS NULL) IS NOT TRUE;
    RETURN QUERY
    WITH given AS MATERIALIZED (
        SELECT * FROM unnest(p_channels, p_contents, p_dequeue_ats, p_headers, p_max_attempts)
            WITH ORDINALITY u (channel, content, at, headers, max_attempts, ord)),
    made AS MATERIALIZED (
        INSERT INTO message (channel, dequeue_at, created_at, headers, max_attempts, content)
        SELECT channel, COALESCE(at, v_now), v_now, headers, max_attempts, content FROM given ORDER BY ord
        RETURNING message.id, channel, dequeue_at),
    woken AS (
        INSERT INTO wake (channel, lo_at, lo_id, hi_at, hi_id)
        SELECT channel, lo[1], lo[2], hi[1], hi[2]
        FROM (SELECT channel, MIN(ARRAY[dequeue_at, made.id]) AS lo, MAX(ARRAY[dequeue_at, made.id]) AS hi FROM made GROUP BY channel) x)
    SELECT made.id, 'created' FROM made;
END $$;
