-- Part of a dequeue: the general case. Works on arrays, one element a visited channel, so that the number of its statements depends on the
-- rounds and not on the channels.
-- Ring rows are locked in one statement and messages picked in the next, whose snapshot is younger: whatever the last
-- holder of the row did is seen.
--
-- Large batches visit a quarter as many channels as they want messages: a turn in the ring costs more than a message.
-- Each channel gets an equal share; what some leave, the others get in further rounds. Channels that can give nothing take
-- nobody's turn: the call visits further ones, within bounds. A channel's messages are read from its
-- head on, from stretch to stretch where there are gaps between; the head passes only what this call took.
--
-- Under a limit over all channels it first takes as many slots as it can get, and looks for so many messages.
CREATE OR REPLACE FUNCTION message_dequeue_many (
    p_limit INT, p_lease_ms BIGINT, p_consumer TEXT, p_max_concurrency INT, p_paused BOOLEAN, p_history BOOLEAN,
    p_floor_at BIGINT, p_floor_turn BIGINT, p_fold_at BIGINT, p_now BIGINT)
RETURNS TABLE (
    id BIGINT, channel TEXT, content BYTEA, headers JSONB, state BYTEA, attempts INT, token UUID, lease_end_at BIGINT, again_at BIGINT)
LANGUAGE plpgsql SET enable_hashjoin TO off SET enable_mergejoin TO off AS $$
#variable_conflict use_column
DECLARE
    c_end CONSTANT BIGINT := 9223372036854775807;
    v_now BIGINT := GREATEST(p_now, clock_ms()); -- the clock never goes back inside a call: rows are chosen by one reading and written with a later one
    v_end BIGINT;
    v_token UUID := gen_random_uuid();
    v_left INT := p_limit;                  -- messages still wanted
    v_hungry INT;                           -- channels that may give more
    v_limited BOOLEAN;
    v_round INT;
    v_visit INT := 0;
    v_turn BIGINT := c_end;                 -- a channel is visited once: what this call has taken is leased only at its end
    v_asked INT;                            -- channels, in this visit
    v_slots TID[];                          -- under a limit over all channels
    v_queue_max INT;                        -- that limit as it is once the ring rows are had
    v_is_full BOOLEAN := FALSE;             -- that limit leaves no room, or the queue is paused
    -- One element a visited channel:
    v_tid TID[]; v_channel TEXT[]; v_released_at BIGINT[];
    v_running TEXT[];                       -- lists of ids, written as text: an array of arrays must not be ragged
    v_at BIGINT[]; v_id BIGINT[];           -- where to read on; NULL: nothing waits there
    v_gaps TEXT[];                          -- those still ahead, as text too; the first ends this stretch
    v_held_at BIGINT[]; v_held_id BIGINT[]; -- the first message that somebody else held
    v_cap INT[];                            -- how many it may still give
    v_max INT[]; v_interval BIGINT[]; v_paused BOOLEAN[];
    v_room INT[]; v_struck_to INT[]; v_until BIGINT[]; -- under a concurrency limit
    v_took INT[];
    -- One element a limited channel and round in which something was taken, of this round and of this visit:
    v_new_ord INT[]; v_new_ids TEXT[];
    v_pick_ord INT[]; v_pick_ids TEXT[];
    -- One element a message taken, of this round and of all; place: of its channel; nth: of its channel's messages.
    v_new_tid TID[]; v_new_place BIGINT[]; v_new_nth BIGINT[]; v_new_slot BOOLEAN[];
    v_lease_tid TID[]; v_lease_visit INT[]; v_lease_place BIGINT[]; v_lease_nth BIGINT[]; v_lease_slot BOOLEAN[]; v_lease_end BIGINT[];
BEGIN
    IF p_max_concurrency IS NOT NULL AND NOT p_paused THEN
        v_slots := queue_slot_take(p_max_concurrency, p_limit);
        v_left := COALESCE(cardinality(v_slots), 0);
    END IF;
    v_is_full := p_paused OR v_left = 0;
    WHILE NOT v_is_full LOOP
        v_asked := CASE WHEN v_visit = 0 THEN LEAST(v_left, 16 + v_left / 4) ELSE v_left END;
        SELECT array_agg(r.tid), array_agg(r.channel), array_agg(r.released_at), array_agg(r.running::TEXT), array_agg(r.struck_to),
            array_agg(r.head_at), array_agg(r.head_id), array_agg(CASE WHEN r.gaps IS NULL OR NOT channel_is_postponed(r.channel) THEN r.gaps::TEXT END)
        INTO v_tid, v_channel, v_released_at, v_running, v_struck_to, v_at, v_id, v_gaps
        FROM (
            SELECT ctid AS tid, * FROM ring
            WHERE due_at IS NOT NULL AND (due_at, turn) >= (p_floor_at, p_floor_turn) AND due_at <= v_now AND turn <= v_turn
            ORDER BY due_at, turn LIMIT v_asked FOR UPDATE SKIP LOCKED) r;
        EXIT WHEN v_channel IS NULL;
        v_now := GREATEST(v_now, clock_ms());
        SELECT array_agg(x.cap), array_agg(x.max_concurrency), array_agg(x.interval_ms), array_agg(x.paused),
            COUNT(*) FILTER (WHERE x.cap > 0), BOOL_OR(x.max_concurrency IS NOT NULL), array_agg(NULL::BIGINT), array_agg(0),
            (SELECT now.max_concurrency FROM queue now)
        INTO v_cap, v_max, v_interval, v_paused, v_hungry, v_limited, v_until, v_took, v_queue_max
        FROM (
            SELECT c.max_concurrency, COALESCE(c.release_interval_ms, 0) AS interval_ms, COALESCE(c.paused, FALSE) AS paused,
                CASE WHEN c.paused OR c.release_interval_ms > 0
                         AND CASE WHEN v.released_at > v_now + 1000 THEN v_now ELSE v.released_at END + c.release_interval_ms > v_now THEN 0
                     WHEN c.release_interval_ms > 0 THEN 1 ELSE v_left END AS cap
            FROM unnest(v_channel, v_released_at) WITH ORDINALITY v (channel, released_at, ord)
            LEFT JOIN LATERAL (SELECT * FROM channel c WHERE c.name = v.channel OFFSET 0) c ON TRUE
            ORDER BY v.ord) x;
        -- A limit over all channels that was set or lifted before these rows were had must hold: ask again.
        IF v_visit = 0 AND v_queue_max IS DISTINCT FROM p_max_concurrency THEN
            again_at := v_now;
            RETURN NEXT;
            RETURN;
        END IF;
        v_held_at := v_until;
        v_held_id := v_until;
        IF v_limited THEN
            SELECT array_agg(x.cap), array_agg(x.room), array_agg(x.running), array_agg(x.struck_to), array_agg(x.until),
                COUNT(*) FILTER (WHERE x.cap > 0)
            INTO v_cap, v_room, v_running, v_struck_to, v_until, v_hungry
            FROM (SELECT r.* FROM running_count(v_channel, v_max, v_running, v_struck_to, v_cap, v_left) r ORDER BY r.ord) x;
        ELSE
            v_room := v_until;
            v_running := v_until;
        END IF;
        -- Stamp releases after the locks are had: two releases of a channel are then as far apart as their stamps.
        v_now := GREATEST(v_now, clock_ms());
        v_end := v_now + p_lease_ms;
        v_round := 0;
        v_pick_ord := NULL;
        v_pick_ids := NULL;
        WHILE v_left > 0 AND v_hungry > 0 AND v_round < 24 LOOP
            WITH wanted AS MATERIALIZED (
                SELECT w.*, w.want + CASE WHEN w.want > 0 AND w.held_at IS NOT NULL THEN 1 << LEAST(v_round, 14) ELSE 0 END AS look
                FROM (
                    SELECT u.*, COALESCE(u.gaps::BIGINT[], ARRAY[ARRAY[c_end, c_end]]) AS ends, LEAST(u.cap, v_left / v_hungry
                        + CASE WHEN SUM(SIGN(u.cap)) OVER (ORDER BY u.took, u.ord) <= v_left % v_hungry THEN 1 ELSE 0 END) AS want
                    FROM unnest(v_channel, v_at, v_id, v_gaps, v_held_at, v_took, v_cap)
                        WITH ORDINALITY u (channel, at, id, gaps, held_at, took, cap, ord)) w),
            got AS MATERIALIZED (
                SELECT s.ord, s.want, s.id, s.at, mine.tid, COUNT(mine.tid) OVER (PARTITION BY s.ord ORDER BY s.at, s.id) AS nth,
                    mine.tid IS NULL AND s.rn <= s.look AND s.at <= v_now AS is_held
                FROM (
                    SELECT v.ord, v.want, v.look, m.tid, m.id, m.at, ROW_NUMBER() OVER (PARTITION BY v.ord ORDER BY m.at, m.id) AS rn
                    FROM wanted v
                    LEFT JOIN LATERAL (
                        SELECT m.ctid AS tid, m.id, m.dequeue_at AS at FROM message m
                        WHERE v.want > 0 AND m.channel = v.channel AND NOT m.leased
                            AND (m.dequeue_at, m.id) >= (v.at, v.id) AND (m.dequeue_at, m.id) <= (v.ends[1][1], v.ends[1][2])
                        ORDER BY m.dequeue_at, m.id LIMIT v.look + 1) m ON TRUE) s
                LEFT JOIN LATERAL (
                    SELECT m.ctid AS tid FROM message m
                    WHERE s.rn <= s.look AND s.at <= v_now AND m.ctid = s.tid AND NOT m.leased AND m.dequeue_at = s.at
                    FOR UPDATE SKIP LOCKED) mine ON TRUE)
            SELECT a.*, t.* INTO v_at, v_id, v_gaps, v_held_at, v_held_id, v_took, v_cap, v_hungry, v_left,
                v_new_ord, v_new_ids, v_new_tid, v_new_place, v_new_nth, v_new_slot
            FROM (
                SELECT array_agg(x.new_at), array_agg(x.new_id), array_agg(x.new_gaps), array_agg(x.new_held[1]), array_agg(x.new_held[2]),
                    array_agg(x.new_took), array_agg(x.cap_left), COUNT(*) FILTER (WHERE x.cap_left > 0), v_left - SUM(x.n),
                    array_agg(x.ord) FILTER (WHERE x.ids IS NOT NULL), array_agg(x.ids) FILTER (WHERE x.ids IS NOT NULL)
                FROM (
                    SELECT g.ord, g.n, g.ids, v_took[g.ord] + g.n AS new_took,
                        CASE WHEN g.want = 0 THEN v_at[g.ord] ELSE g.next[1] END AS new_at,
                        CASE WHEN g.want = 0 THEN v_id[g.ord] ELSE g.next[2] END AS new_id,
                        CASE WHEN g.is_done THEN NULLIF(g.gaps[2:], '{}')::TEXT ELSE v_gaps[g.ord] END AS new_gaps,
                        LEAST(g.held, CASE WHEN v_held_at[g.ord] IS NOT NULL THEN ARRAY[v_held_at[g.ord], v_held_id[g.ord]] END) AS new_held,
                        -- Hungry are those that may give more: below their cap, and what is to be read next is due.
                        CASE WHEN g.want = 0 THEN v_cap[g.ord]
                             WHEN g.next[1] <= v_now THEN v_cap[g.ord] - g.n
                             ELSE 0 END AS cap_left
                    FROM (
                        SELECT g.*, g.want > 0 AND g.first IS NULL AS is_done,
                            COALESCE(g.first, CASE WHEN g.gaps IS NOT NULL THEN ARRAY[g.gaps[1][3], g.gaps[1][4]] END) AS next
                        FROM (
                            SELECT g.ord, v_gaps[g.ord]::BIGINT[] AS gaps, MIN(g.want) AS want,
                                COUNT(*) FILTER (WHERE g.tid IS NOT NULL AND g.nth <= g.want)::INT AS n,
                                array_agg(g.id) FILTER (WHERE g.tid IS NOT NULL AND g.nth <= g.want AND v_limited)::TEXT AS ids,
                                MIN(ARRAY[g.at, g.id]) FILTER (WHERE g.is_held) AS held,
                                MIN(ARRAY[g.at, g.id]) FILTER (WHERE g.at IS NOT NULL AND NOT g.is_held AND (g.tid IS NULL OR g.nth > g.want)) AS first
                            FROM got g GROUP BY g.ord) g) g
                    ORDER BY g.ord) x) a
            CROSS JOIN (
                SELECT array_agg(g.tid), array_agg(g.ord), array_agg(v_took[g.ord] + g.nth), array_agg(v_max[g.ord] IS NOT NULL)
                FROM got g WHERE g.tid IS NOT NULL AND g.nth <= g.want) t;
            v_pick_ord := v_pick_ord || v_new_ord;
            v_pick_ids := v_pick_ids || v_new_ids;
            v_lease_tid := v_lease_tid || v_new_tid;
            v_lease_place := v_lease_place || v_new_place;
            v_lease_nth := v_lease_nth || v_new_nth;
            v_lease_slot := v_lease_slot || v_new_slot;
            v_lease_visit := v_lease_visit || array_fill(v_visit, ARRAY[COALESCE(cardinality(v_new_tid), 0)]);
            v_lease_end := v_lease_end || array_fill(v_end, ARRAY[COALESCE(cardinality(v_new_tid), 0)]);
            v_round := v_round + 1;
        END LOOP;
        IF current_setting('synchronous_commit') = 'off' AND (p_history OR p_max_concurrency IS NOT NULL OR EXISTS (
            SELECT FROM unnest(v_max, v_interval, v_took) x (max, interval, took) WHERE took > 0 AND (max IS NOT NULL OR interval > 0)))
        THEN
            PERFORM set_config('synchronous_commit', 'on', TRUE); -- what is promised exactly must not be lost in a crash
        END IF;
        IF v_visit = 0 THEN
            v_turn := (SELECT last_value FROM turn);
        END IF;
        PERFORM ring_turn(v_tid, v_released_at, v_at, v_id, v_gaps, v_held_at, v_held_id,
            v_took, v_interval, v_paused, v_max, v_room, v_running, v_struck_to, v_until, v_pick_ord, v_pick_ids, v_now, v_end);
        v_visit := v_visit + 1;
        -- What was visited could not give enough. If that was all that is due, be content; else others are not to wait for it.
        EXIT WHEN v_left <= 0 OR cardinality(v_channel) < v_asked OR v_visit >= 64;
    END LOOP;
    IF v_lease_tid IS NOT NULL THEN
        -- A sweep may have passed these ends by the time the transaction commits.
        INSERT INTO wake (lo_at, hi_at, n) SELECT MIN(e), MAX(e), v_left - COALESCE(cardinality(v_slots), p_limit) FROM unnest(v_lease_end) e;
        IF v_slots IS NOT NULL THEN
            PERFORM queue_slot_fill(v_slots, v_lease_tid, v_token);
        END IF;
        RETURN QUERY
        WITH mine AS (
            UPDATE message m
            SET leased = TRUE, slot = t.slot OR v_slots IS NOT NULL, token = v_token, lease_end_at = t.end_at, consumer = p_consumer,
                dequeued_at = t.end_at - p_lease_ms, first_dequeued_at = COALESCE(m.first_dequeued_at, m.dequeued_at)
            FROM unnest(v_lease_tid, v_lease_visit, v_lease_place, v_lease_nth, v_lease_slot, v_lease_end)
                t (tid, visit, place, nth, slot, end_at)
            WHERE m.ctid = t.tid
            RETURNING m.id, m.channel, m.content, m.headers, m.state, m.attempts, m.lease_end_at, t.visit, t.place, t.nth)
        SELECT m.id, m.channel, m.content, m.headers, m.state, m.attempts + 1, v_token, m.lease_end_at, CASE WHEN p_fold_at < v_now THEN v_now END
        FROM mine m ORDER BY m.nth, m.visit, m.place;
    END IF;
    IF v_left > 0 OR v_is_full OR cardinality(v_slots) < p_limit THEN
        -- Who got some asks again as soon as it is done with them, and learns then whether there is more.
        again_at := CASE WHEN v_is_full THEN v_now + CASE WHEN p_paused THEN 1000 ELSE 100 END
            WHEN v_lease_tid IS NOT NULL THEN v_now ELSE dequeue_again_at(v_now) END;
        RETURN NEXT;
    END IF;
END $$;
