-- Part of a dequeue, under the ring rows' locks: give the visited channels their next turn. The rows are known by their address.
-- A channel with more to give goes to the end of the line. A full one waits for a slot; who frees one says so, but for leases from before
-- the limit, which are looked for every 100 ms. Messages that somebody holds are looked for with pauses that grow with the
-- time since the last release, up to a second. One with nothing waiting leaves the line but keeps its row, and with it its last release.
-- No row is written lower than it was, whatever the clock says: nobody looks below the floor of the ring.
CREATE OR REPLACE FUNCTION ring_turn (
    p_tid TID[], p_released_at BIGINT[], p_at BIGINT[], p_id BIGINT[], p_gaps TEXT[], p_held_at BIGINT[], p_held_id BIGINT[], p_took INT[], p_interval BIGINT[], p_paused BOOLEAN[],
    p_max INT[], p_room INT[], p_running TEXT[], p_struck_to INT[], p_until BIGINT[],
    p_pick_ord INT[], p_pick_ids TEXT[], p_now BIGINT, p_end BIGINT)
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM unnest(p_max) m WHERE m IS NOT NULL) THEN
        FOR i IN 1 .. COALESCE(cardinality(p_pick_ord), 0) LOOP
            IF p_max[p_pick_ord[i]] IS NOT NULL THEN
                p_running[p_pick_ord[i]] := (p_running[p_pick_ord[i]]::BIGINT[] || p_pick_ids[i]::BIGINT[])::TEXT;
            END IF;
        END LOOP;
    END IF;
    UPDATE ring r
    SET turn = nextval('turn'), due_at = CASE WHEN x.due_at IS NOT NULL THEN GREATEST(r.due_at, x.due_at) END, is_full = x.is_full AND x.due_at IS NOT NULL,
        head_at = x.head[1], head_id = x.head[2], gaps = x.gaps::BIGINT[],
        released_at = CASE WHEN x.took > 0 OR r.released_at > p_now + 1000 THEN p_now ELSE r.released_at END, running = x.running::BIGINT[],
        struck_to = x.struck_to, served = r.served + x.took
    FROM (
        SELECT y.*,
            CASE WHEN y.paused OR y.head IS NULL THEN NULL
                 WHEN y.is_full AND y.until = -1 THEN p_now + 100
                 WHEN y.is_full THEN GREATEST(y.head[1], p_now + 1000, LEAST(y.until, p_end))
                 ELSE GREATEST(y.head[1], p_now + CASE WHEN y.is_held_up THEN y.pause_ms ELSE 0 END, CASE WHEN y.interval_ms > 0 THEN
                     CASE WHEN y.took > 0 OR y.released_at > p_now + 1000 THEN p_now ELSE y.released_at END + y.interval_ms END) END AS due_at
        FROM (
            SELECT v.*, LEAST(CASE WHEN v.at IS NOT NULL THEN ARRAY[v.at, v.id] END,
                    CASE WHEN v.held_at IS NOT NULL THEN ARRAY[v.held_at, v.held_id] END) AS head,
                COALESCE(v.took >= v.room, FALSE) AS is_full,
                v.took = 0 AND v.held_at IS NOT NULL AS is_held_up,
                LEAST(1000, GREATEST(10, (p_now - COALESCE(v.released_at, p_now - 1000)) / 2)) AS pause_ms
            FROM unnest(p_tid, p_released_at, p_at, p_id, p_gaps, p_held_at, p_held_id, p_took,
                p_interval, p_paused, p_room, p_running, p_struck_to, p_until) WITH ORDINALITY
                v (tid, released_at, at, id, gaps, held_at, held_id, took,
                interval_ms, paused, room, running, struck_to, until, ord)
            ORDER BY v.took, v.ord) y) x           -- who got an odd message stands behind those who did not
    WHERE r.ctid = x.tid;
END $$;
