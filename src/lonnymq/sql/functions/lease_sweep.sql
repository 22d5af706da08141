-- Part of a fold. Leases that ran out: the attempt is used up, and the message goes back to its place in its channel's line,
-- or is parked as dead; what was cancelled goes. Starts where the last sweep ended, or at p_from, the lowest lease end that was committed since.
-- Looks at p_late again, leases that somebody held before. Rechecks every lease under its row's lock; one that is held is not waited
-- for. Returns wakes for what came back, what was held, and how far it got.
CREATE OR REPLACE FUNCTION lease_sweep (
    p_tick tick, p_from BIGINT, p_late BIGINT[], p_now BIGINT, p_limit INT,
    OUT wakes wake[], OUT held TEXT[], OUT swept_at BIGINT, OUT swept_id BIGINT, OUT is_more BOOLEAN, OUT back_count INT)
LANGUAGE plpgsql AS $$
DECLARE
    v_due BIGINT[];
    v_last BIGINT[];
    v_tids TID[];
    v_outcomes TEXT[];                      -- NULL where it comes back
    v_errors TEXT[];
    v_from_at BIGINT := LEAST(p_tick.swept_at, p_from);
    v_from_id BIGINT := CASE WHEN p_from <= p_tick.swept_at THEN 0 ELSE p_tick.swept_id END;
    v_more wake[];
    v_max INT := (SELECT q.max_attempts FROM queue q);
BEGIN
    back_count := 0;
    SELECT array_agg(x.id), MAX(ARRAY[x.lease_end_at, x.id]) INTO v_due, v_last
    FROM (
        SELECT m.id, m.lease_end_at FROM message m
        WHERE m.leased AND (m.lease_end_at, m.id) > (v_from_at, v_from_id) AND m.lease_end_at <= p_now
        ORDER BY m.lease_end_at, m.id LIMIT p_limit) x;
    is_more := COALESCE(cardinality(v_due), 0) = p_limit;
    swept_at := CASE WHEN is_more THEN v_last[1] WHEN p_now > v_from_at THEN p_now ELSE v_from_at END;
    swept_id := CASE WHEN is_more THEN v_last[2] WHEN p_now > v_from_at THEN 9223372036854775807 ELSE v_from_id END;
    IF v_due IS NULL AND p_late IS NULL THEN
        RETURN;
    END IF;
    SELECT array_agg(l.tid) FILTER (WHERE l.tid IS NOT NULL),
        array_agg(CASE WHEN l.is_cancelled THEN 'cancelled' WHEN l.attempts + 1 >= COALESCE(l.max_attempts, v_max) THEN 'dead' END)
            FILTER (WHERE l.tid IS NOT NULL),
        array_agg('the lease ran out'::TEXT) FILTER (WHERE l.tid IS NOT NULL),
        array_agg(ROW(NULL, NULL, NULL, NULL, NULL, NULL, l.channel, 0)::wake) FILTER (WHERE l.slot),
        array_agg('m' || d.id) FILTER (WHERE l.tid IS NULL AND v.is_due)
    INTO v_tids, v_outcomes, v_errors, wakes, held
    FROM (SELECT DISTINCT id FROM unnest(v_due || p_late) id ORDER BY id) d
    LEFT JOIN LATERAL (
        SELECT m.ctid AS tid, m.channel, m.slot, m.is_cancelled, m.attempts, m.max_attempts
        FROM message m WHERE m.id = d.id AND COALESCE(m.leased AND m.lease_end_at <= p_now, FALSE)
        FOR UPDATE SKIP LOCKED) l ON TRUE
    LEFT JOIN LATERAL (
        SELECT TRUE AS is_due FROM message m WHERE m.id = d.id AND COALESCE(m.leased AND m.lease_end_at <= p_now, FALSE) OFFSET 0) v ON TRUE;
    IF array_remove(v_outcomes, NULL) <> '{}' THEN
        PERFORM message_end(v_tids, v_outcomes, v_errors, NULL, p_now);
        IF current_setting('synchronous_commit') = 'off' AND ('dead' = ANY (v_outcomes) OR (SELECT q.history FROM queue q)) THEN
            PERFORM set_config('synchronous_commit', 'on', TRUE); -- a follower of the history or the dead letters may have read it before a crash
        END IF;
    END IF;
    WITH back AS (
        UPDATE message m
        SET leased = FALSE, slot = FALSE, token = NULL, lease_end_at = NULL, attempts = m.attempts + 1, error = 'the lease ran out'
        FROM unnest(v_tids, v_outcomes) u (tid, outcome)
        WHERE m.ctid = u.tid AND u.outcome IS NULL
        RETURNING m.channel, m.dequeue_at, m.id)
    SELECT array_agg(ROW(NULL, NULL, b.dequeue_at, b.id, b.dequeue_at, b.id, b.channel, 1)::wake)
        || array_agg(ROW(NULL, NULL, NULL, NULL, NULL, NULL, b.channel, 0)::wake), COUNT(*)
    INTO v_more, back_count FROM back b;
    wakes := wakes || v_more;
END $$;
