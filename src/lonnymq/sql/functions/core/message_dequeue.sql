-- Lease up to p_limit due messages, round robin over the channels.
--
-- Locks the ring rows of the channels it takes from, and the messages it takes, until the transaction ends; steps over
-- what others hold. A transaction left open holds back those channels and no others. READ COMMITTED only.
--
-- Returns the messages, the first of each channel before the second of any; then, if fewer than asked, a row with a NULL id. Where again_at
-- is given, fold before asking again, and not before that time: in the last row when there is no more for the moment, in every row
-- when nobody has folded for a while: 20 ms and more, the less the more is asked for.
--
-- The plain case of one message is done here, in a few small statements: a channel that may release, and whose first message
-- nobody holds. All else is for message_dequeue_many.
CREATE OR REPLACE FUNCTION message_dequeue (p_limit INT DEFAULT 1, p_lease_ms BIGINT DEFAULT NULL, p_consumer TEXT DEFAULT NULL)
RETURNS TABLE (
    id BIGINT, channel TEXT, content BYTEA, headers JSONB, state BYTEA, attempts INT, token UUID, lease_end_at BIGINT, again_at BIGINT)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET plan_cache_mode TO force_generic_plan SET enable_seqscan TO off SET enable_bitmapscan TO off
SET enable_tidscan TO on SET jit TO off AS $$
#variable_conflict use_column
DECLARE
    c_end CONSTANT BIGINT := 9223372036854775807;
    q RECORD;                               -- the queue's settings, and what the last fold left
    r RECORD;                               -- the ring row whose turn it is
    c RECORD;                               -- its channel's policy
    h RECORD;                               -- its first message and the one behind it
BEGIN
    -- Whether to fold is spread by chance: else all consumers would do it at the same time, and all but one in vain.
    SELECT COALESCE(p_lease_ms, q.lease_ms) AS lease_ms, q.max_concurrency, q.paused, q.history, t.floor_at, t.floor_turn, t.at AS folded_at,
        -- A tick from the future is from before the clock was set back: fold.
        CASE WHEN t.at > k.now + 1000 THEN 0
             WHEN p_limit BETWEEN 1 AND 10000 THEN t.at + (2000 * (1 + random()))::INT / (100 + p_limit) END AS fold_at, k.now,
        current_setting('transaction_isolation') = 'read committed' AND p_limit BETWEEN 1 AND 10000
            AND COALESCE(p_lease_ms BETWEEN 1 AND q.lease_max_ms, TRUE) AND COALESCE(octet_length(p_consumer), 0) <= 255 AND NOT q.has_bound AS is_good,
        q.max_concurrency IS NULL AND NOT q.paused AS is_open
    INTO q FROM queue q CROSS JOIN (SELECT clock_ms() AS now OFFSET 0) k LEFT JOIN LATERAL (SELECT * FROM tick t ORDER BY t.id DESC LIMIT 1) t ON TRUE;
    IF q.is_good IS NOT TRUE THEN
        PERFORM dequeue_check(p_limit, q.lease_ms, p_consumer);
    END IF;
    IF q.is_open THEN
        SELECT ctid AS tid, channel, head_at, head_id, gaps, released_at, cardinality(running) AS n, struck_to INTO r
        FROM ring
        WHERE due_at IS NOT NULL AND (due_at, turn) >= (q.floor_at, q.floor_turn) AND due_at <= q.now
        ORDER BY due_at, turn LIMIT 1 FOR UPDATE SKIP LOCKED;
        IF r.tid IS NULL THEN
            -- Where somebody folded just before, looking for what there is to fold is left to the next call.
            again_at := CASE WHEN q.folded_at BETWEEN q.now - 4 AND q.now - 1 THEN q.folded_at + 5 ELSE dequeue_again_at(q.now) END;
            RETURN NEXT;
            RETURN;
        END IF;
    END IF;
    IF q.is_open AND p_limit = 1 THEN
        -- From here on with younger snapshots than the lock's. The clock too is read after it: two releases of a channel are then as
        -- far apart as their stamps. It never goes back inside a call: the row was chosen by the first reading.
        SELECT k.now, x.max_concurrency AS max, COALESCE(x.release_interval_ms, 0) AS interval_ms,
            (s.max_concurrency IS NULL AND COALESCE(NOT x.paused, TRUE)
                AND (x.max_concurrency IS NULL OR r.n < x.max_concurrency AND r.n <= 2 * r.struck_to + 64)
                AND COALESCE(r.released_at + x.release_interval_ms <= k.now, TRUE)) IS TRUE AS is_free
        INTO c FROM queue s CROSS JOIN (SELECT GREATEST(q.now, clock_ms()) AS now OFFSET 0) k LEFT JOIN LATERAL (SELECT * FROM channel x WHERE x.name = r.channel OFFSET 0) x ON TRUE;
        IF c.is_free THEN
            SELECT array_agg(w.tid) AS tids, array_agg(w.at) AS ats, array_agg(w.id) AS ids INTO h
            FROM (
                SELECT m.ctid AS tid, m.id, m.dequeue_at AS at FROM message m
                WHERE NOT m.leased AND m.channel = r.channel AND (m.dequeue_at, m.id) >= (r.head_at, r.head_id)
                    AND (m.dequeue_at, m.id) <= (COALESCE(r.gaps[1][1], c_end), COALESCE(r.gaps[1][2], c_end))
                ORDER BY m.dequeue_at, m.id LIMIT 2) w;
            UPDATE message x
            SET leased = TRUE, slot = c.max IS NOT NULL, token = gen_random_uuid(), lease_end_at = c.now + q.lease_ms, consumer = p_consumer,
                dequeued_at = c.now, first_dequeued_at = COALESCE(x.first_dequeued_at, x.dequeued_at)
            WHERE x.ctid = (
                SELECT y.ctid FROM message y
                WHERE y.ctid = h.tids[1] AND NOT y.leased AND y.dequeue_at = h.ats[1] AND y.dequeue_at <= c.now FOR UPDATE SKIP LOCKED)
            RETURNING x.id, x.channel, x.content, x.headers, x.state, x.attempts + 1, x.token, x.lease_end_at,
                CASE WHEN q.fold_at < c.now THEN c.now END
            INTO id, channel, content, headers, state, attempts, token, lease_end_at, again_at;
            IF message_dequeue.id IS NOT NULL THEN
                IF h.ids[2] IS NULL AND r.gaps IS NOT NULL AND channel_is_postponed(r.channel) THEN
                    h.ats[2] := h.ats[1];   -- what looks like a gap may be none: the next one looks
                    h.ids[2] := h.ids[1];
                    r.gaps := NULL;
                ELSIF h.ids[2] IS NULL AND r.gaps IS NOT NULL THEN -- on to the next stretch
                    h.ats[2] := r.gaps[1][3];
                    h.ids[2] := r.gaps[1][4];
                    r.gaps := NULLIF(r.gaps[2:], '{}');
                END IF;
                UPDATE ring
                SET turn = nextval('turn'), due_at = CASE WHEN h.ids[2] IS NOT NULL THEN GREATEST(due_at, h.ats[2], c.now + c.interval_ms) END,
                    is_full = FALSE, head_at = h.ats[2], head_id = h.ids[2], gaps = r.gaps,
                    released_at = c.now, running = CASE WHEN c.max IS NOT NULL THEN running || h.ids[1] END, served = served + 1
                WHERE ctid = r.tid;
                -- A sweep may have passed this end by the time the transaction commits.
                INSERT INTO wake (lo_at, hi_at, n) VALUES (message_dequeue.lease_end_at, message_dequeue.lease_end_at, -1);
                IF (c.max IS NOT NULL OR c.interval_ms > 0 OR q.history) AND current_setting('synchronous_commit') = 'off' THEN
                    PERFORM set_config('synchronous_commit', 'on', TRUE); -- what is promised exactly must not be lost in a crash
                END IF;
                RETURN NEXT;
                RETURN;
            END IF;
        END IF;
    END IF;
    RETURN QUERY SELECT * FROM message_dequeue_many(
        p_limit, q.lease_ms, p_consumer, q.max_concurrency, q.paused, q.history, q.floor_at, q.floor_turn, q.fold_at, q.now);
END $$;
