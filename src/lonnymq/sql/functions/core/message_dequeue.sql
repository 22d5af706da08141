-- Lease up to p_limit messages that are ready, in fair order: lowest tag first. READ COMMITTED only.
-- Locks the entries that it takes until the transaction ends, and skips entries that others hold: a transaction left
-- open holds its own messages and nothing else. With p_lanes, it takes from these lanes only, in equal parts. With
-- p_channels, it takes from these channels only, and finds what channels_dispatch has made ready. With
-- p_async_commit, a crash may undo the dequeue, and the messages are then due again; where a limit or the history
-- depends on it, it commits durably.
-- Returns the messages, and a last row with a NULL id if there are fewer than p_limit. If again_at is set, dispatch
-- before you dequeue again, and not before that time. It is set in the last row when there is nothing more at the
-- moment, and in every row when nobody has dispatched for a while (20 ms or more; less for larger batches).
-- stalled_consumer: if the last failed attempt ended because its lease ran out, the consumer that had the message last.
-- waited_ms: the time since the message was due, created or last dequeued, whichever was latest.
CREATE OR REPLACE FUNCTION message_dequeue (
    p_limit INT DEFAULT 1, p_lease_ms BIGINT DEFAULT NULL, p_consumer TEXT DEFAULT NULL, p_lanes TEXT[] DEFAULT NULL,
    p_async_commit BOOLEAN DEFAULT FALSE, p_channels TEXT[] DEFAULT NULL
) RETURNS TABLE (
    id BIGINT, channel TEXT, content BYTEA, headers JSONB, state BYTEA, attempts INT, token UUID, lease_end_at BIGINT,
    again_at BIGINT, lane TEXT, priority INT, cost INT, keep_result_ms BIGINT, stalled_consumer TEXT, waited_ms BIGINT
) LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    v_now BIGINT := clock_ms();
    q RECORD;                               -- the queue's settings, and the state after the last dispatch
    v_taken ready[];
    v_got ready[];                          -- the last entries that were taken
    v_n INT;                                -- the number of the entry in v_got
    v_is_served BOOLEAN;                    -- FALSE: it is locked; NULL: it was cancelled or rescheduled
    v_skipped ready[];                      -- entries whose messages are not served,
    v_back stub[];                          -- and those of them that come back
    v_count INT := 0;                       -- how many messages were returned
    v_is_exact BOOLEAN;                     -- a limit or the history depends on it: a crash must not undo it
    v_mode TEXT;
BEGIN
    -- changed: channels whose new policy the dispatcher has not seen yet. Nothing is taken from them.
    SELECT q.lease_ms, q.lease_max_ms, q.paused, q.history, q.has_bound, t.at, t.lanes,
        COALESCE(q.channel_max_concurrency, q.channel_release_interval_us) IS NOT NULL
            OR EXISTS (SELECT FROM channel) AS has_policies,
        ARRAY(SELECT c.channel FROM policy_change c WHERE c.xid >= t.policy_xid) AS changed INTO q FROM queue q
    LEFT JOIN LATERAL (SELECT t.at, t.lanes, t.policy_xid FROM tick t ORDER BY t.id DESC LIMIT 1) t ON TRUE;
    IF (p_limit BETWEEN 1 AND 10000 AND (p_lease_ms IS NULL OR p_lease_ms BETWEEN 1 AND q.lease_max_ms)
        AND (p_consumer IS NULL OR octet_length(p_consumer) <= 255) AND p_lanes IS NULL AND p_channels IS NULL
        AND p_async_commit IS NOT NULL AND current_setting('transaction_isolation') = 'read committed'
        AND NOT q.has_bound) IS NOT TRUE THEN
        PERFORM dequeue_check(p_limit, COALESCE(p_lease_ms, q.lease_ms), p_consumer, p_lanes);
        p_channels := claim_channels(p_channels, NULL, NULL);
    END IF;
    token := gen_random_uuid();
    -- After 20 ms without a dispatch one call in ten is asked to dispatch, after 60 ms every call: only one dispatch
    -- can run at a time. A tick in the future is from before the clock was set back: dispatch then, too.
    IF v_now NOT BETWEEN q.at - 1000 AND q.at + 2000 * (1 + 2 * (random() > 0.1)::INT) / (100 + p_limit) THEN
        again_at := v_now;
    END IF;
    -- Usually one round; more if taken messages are void or locked; none if the queue is paused or its policy changed.
    FOR i IN 1 .. CASE WHEN q.paused OR '' = ANY (q.changed) THEN 0 ELSE 20 END LOOP
        IF p_lanes IS NULL AND p_channels IS NULL AND cardinality(q.lanes) = 1 THEN
            v_got := ready_take(q.lanes[1], q.changed, p_limit - v_count);
        ELSE
            v_got := ready_take_lanes(q.lanes, p_lanes, q.changed, p_limit - v_count, p_channels);
        END IF;
        EXIT WHEN v_got IS NULL;
        IF v_taken IS NULL THEN             -- the entry may be younger than the clock's first reading
            v_now := GREATEST(v_now, clock_ms());
            lease_end_at := v_now + COALESCE(p_lease_ms, q.lease_ms);
        END IF;
        v_taken := v_taken || v_got;
        -- A separate statement: its snapshot is younger than the locks, so it sees all earlier changes. A message that
        -- is being cancelled or rescheduled (xmax), or that an open create counts on, comes back in one second.
        FOR id, channel, content, headers, state, attempts, lane, priority, cost, keep_result_ms, stalled_consumer,
            waited_ms, v_n, v_is_served IN
            SELECT m.id, m.channel, m.content, m.headers, m.state, m.attempts + 1, m.lane, m.priority, m.cost,
                m.keep_result_ms, CASE WHEN m.attempts > 0 AND m.error = 'the lease ran out'
                    THEN COALESCE(m.consumer, '') END,
                GREATEST(0, v_now - GREATEST(m.dequeue_at, m.created_at, m.dequeued_at)), r.nth,
                CASE WHEN m.id IS NOT NULL THEN (m.is_free OR message_lock_if_free(m.id, r.generation))
                    AND (m.dedupe_key IS NULL OR m.unique_for_ms IS NOT NULL
                        OR dedupe_may_start(m.channel, m.dedupe_key, m.id)) END
            FROM unnest(v_got) WITH ORDINALITY r (lane, tag, id, generation, rank, at, cost, is_limited, channel, nth)
            LEFT JOIN LATERAL (SELECT m.*, m.xmax = '0' AS is_free FROM message m
                WHERE m.id = r.id AND m.generation = r.generation OFFSET 0) m ON TRUE
        LOOP
            IF v_is_served THEN
                RETURN NEXT;
                v_count := v_count + 1;
            ELSE
                v_skipped := v_skipped || v_got[v_n];
                v_back := v_back || CASE WHEN v_is_served IS NOT NULL
                    THEN ARRAY[ROW((v_got[v_n]).id, (v_got[v_n]).generation)::stub] END;
            END IF;
        END LOOP;
        EXIT WHEN v_skipped IS NULL OR v_count = p_limit;
    END LOOP;
    v_taken := CASE WHEN v_skipped IS NULL THEN v_taken ELSE ready_skip(v_taken, v_skipped, v_back, v_now) END;
    IF v_count > 0 THEN
        v_is_exact := lease_write(v_taken, message_dequeue.token, message_dequeue.lease_end_at, v_now, p_consumer,
            p_limit) OR q.history OR q.has_policies
                AND (p_async_commit OR current_setting('synchronous_commit') = 'off') AND ready_is_limited(v_taken);
        IF v_is_exact AND current_setting('synchronous_commit') = 'off' THEN
            v_mode := set_config('synchronous_commit', 'on', TRUE); -- a crash must not undo it
        ELSIF p_async_commit AND NOT v_is_exact THEN
            v_mode := set_config('synchronous_commit', 'off', TRUE);
        END IF;
    END IF;
    IF v_count = 0 AND cardinality(q.lanes) > 1 AND p_channels IS NULL THEN
        PERFORM lanes_announce(q.lanes, p_lanes, v_now);
    END IF;
    IF v_count < p_limit THEN
        RETURN QUERY SELECT NULL::BIGINT, NULL, NULL::BYTEA, NULL::JSONB, NULL::BYTEA, NULL::INT, NULL::UUID,
            NULL::BIGINT, CASE WHEN v_count > 0 OR v_skipped IS NOT NULL THEN v_now ELSE dequeue_again_at(v_now) END,
            NULL, NULL::INT, NULL::INT, NULL::BIGINT, NULL, NULL::BIGINT;
    END IF;
END $$;
