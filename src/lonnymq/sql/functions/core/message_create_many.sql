-- Create messages for any mix of channels. Ids rise in the order given. One invalid element refuses the whole call.
-- Locks nothing, except for batches, dedupe keys and channels with a max_size (see messages_create). One call never
-- deadlocks with another. Returns (id, result) per message, in the order given, as message_create does. With
-- p_raise_full, a full channel is an error (LM017) instead of a result, and nothing is created.
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
    p_lanes TEXT[] DEFAULT NULL,
    p_unique_whiles TEXT[] DEFAULT NULL,
    p_unique_fors_ms BIGINT[] DEFAULT NULL,
    p_keep_results_ms BIGINT[] DEFAULT NULL,
    p_batch_ids BIGINT[] DEFAULT NULL
) RETURNS TABLE (id BIGINT, result TEXT)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    -- before it looks for a limit, so that whoever sets one can tell which transactions may have missed it
    v_xid XID8 := pg_current_xact_id();
    v_now BIGINT := transaction_ms();
    v_clock BIGINT := CASE WHEN p_delays_ms IS NOT NULL THEN clock_ms() END;
    v_count INT := cardinality(p_channels);
    v_is_plain BOOLEAN := num_nonnulls(p_dequeue_ats, p_headers, p_max_attempts, p_dedupe_keys, p_delays_ms,
        p_priorities, p_costs, p_lanes, p_unique_whiles, p_unique_fors_ms, p_keep_results_ms, p_batch_ids) = 0;
    v_max INT;
    v_is_special BOOLEAN;
    v_is_asleep BOOLEAN;
    v_lo BIGINT;
BEGIN
    SELECT s.content_max_bytes, s.is_special INTO v_max, v_is_special FROM sleep s ORDER BY s.id DESC LIMIT 1;
    IF NOT v_is_plain OR (v_count = cardinality(p_contents)) IS NOT TRUE THEN
        PERFORM array_lengths_check(v_count, cardinality(p_contents), cardinality(p_dequeue_ats),
            cardinality(p_headers), cardinality(p_max_attempts), cardinality(p_dedupe_keys), cardinality(p_delays_ms),
            cardinality(p_priorities), cardinality(p_costs), cardinality(p_lanes), cardinality(p_unique_whiles),
            cardinality(p_unique_fors_ms), cardinality(p_keep_results_ms), cardinality(p_batch_ids));
    END IF;
    IF v_count = 0 THEN
        RETURN;
    END IF;
    IF p_lanes IS NOT NULL THEN
        PERFORM lanes_check(p_lanes);
    END IF;
    IF v_is_special AND NOT (SELECT q.has_bound FROM queue q) THEN -- or do only other channels have a max_size?
        v_is_special := EXISTS (
            SELECT FROM (SELECT DISTINCT u.channel FROM unnest(p_channels) u (channel)) u
            WHERE channel_max_size(u.channel) IS NOT NULL);
    END IF;
    IF v_is_special OR num_nonnulls(VARIADIC p_dedupe_keys) > 0 OR num_nonnulls(VARIADIC p_unique_whiles) > 0
        OR num_nonnulls(VARIADIC p_unique_fors_ms) > 0 OR num_nonnulls(VARIADIC p_batch_ids) > 0
    THEN
        RETURN QUERY SELECT * FROM messages_create(ARRAY(
            SELECT ROW(channel, content, at, headers, max_attempts, key, delay_ms, priority, cost, lane, unique_while,
                unique_for_ms, keep_ms, batch_id)::new_message
            FROM (SELECT unnest(p_channels) AS channel, unnest(p_contents) AS content, unnest(p_dequeue_ats) AS at,
                unnest(p_headers) AS headers, unnest(p_max_attempts) AS max_attempts, unnest(p_dedupe_keys) AS key,
                unnest(p_delays_ms) AS delay_ms, unnest(p_priorities) AS priority, unnest(p_costs) AS cost,
                unnest(p_lanes) AS lane, unnest(p_unique_whiles) AS unique_while,
                unnest(p_unique_fors_ms) AS unique_for_ms, unnest(p_keep_results_ms) AS keep_ms,
                unnest(p_batch_ids) AS batch_id OFFSET 0) u), p_raise_full);
        RETURN;
    END IF;
    -- Elements that are unnested in a SELECT list come in their order, without a copy. The new ids are above the last.
    v_lo := COALESCE(pg_sequence_last_value('message_id_seq'), 0) + 1;
    IF v_is_plain THEN
        RETURN QUERY
        INSERT INTO message (xid, dequeue_at, created_at, channel, content)
        SELECT v_xid, v_now, v_now, channel, content
        FROM (SELECT unnest(p_channels) AS channel, unnest(p_contents) AS content,
            generate_series(1, v_count) AS ord) u
        WHERE message_check(ROW(channel, content, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
            NULL, NULL, NULL)::new_message, v_max, format(' (message %s of %s)', ord, v_count))
        RETURNING message.id, 'created';
    ELSE
        RETURN QUERY
        INSERT INTO message (xid, dequeue_at, created_at, max_attempts, keep_result_ms, cost, priority, lane, channel,
            headers, content)
        SELECT v_xid, COALESCE(at, v_clock + delay_ms, v_now), v_now, max_attempts, NULLIF(keep_ms, 0),
            COALESCE(cost, 1), COALESCE(priority, 0), COALESCE(lane, 'default'), channel, headers, content
        FROM (SELECT unnest(p_channels) AS channel, unnest(p_contents) AS content, unnest(p_dequeue_ats) AS at,
            unnest(p_headers) AS headers, unnest(p_max_attempts) AS max_attempts, unnest(p_delays_ms) AS delay_ms,
            unnest(p_priorities) AS priority, unnest(p_costs) AS cost, unnest(p_lanes) AS lane,
            unnest(p_keep_results_ms) AS keep_ms, generate_series(1, v_count) AS ord) u
        WHERE message_check(ROW(channel, content, at, headers, max_attempts, NULL, delay_ms, priority, cost,
            lane, NULL, NULL, keep_ms, NULL)::new_message, v_max, format(' (message %s of %s)', ord, v_count))
        RETURNING message.id, 'created';
    END IF;
    -- By now message is locked, and the snapshot of this statement is younger: see sleep_begin.
    INSERT INTO notice (xid, lo_id, hi_id, n) VALUES (v_xid, v_lo, currval('message_id_seq'), v_count)
    RETURNING (SELECT s.is_asleep FROM sleep s ORDER BY s.id DESC LIMIT 1) INTO v_is_asleep;
    IF v_is_asleep OR current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM sleep_notify((
            SELECT MIN(COALESCE(at, v_clock + delay_ms, v_now))
            FROM (SELECT unnest(p_dequeue_ats) AS at, unnest(p_delays_ms) AS delay_ms,
                generate_series(1, v_count) AS ord OFFSET 0) u));
    END IF;
END $$;
