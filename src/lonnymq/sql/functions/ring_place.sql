-- Part of a fold: give the channels of p_wakes their place in the ring. A channel joins at the end of the line, never before;
-- one that stands in it keeps its place, whatever arrives; only a later due time falls to now.
-- A row that a consumer holds is not waited for: its channel is returned, to be postponed.
-- Rows are locked and weighed in one statement and written in the next, by their address: a plan made for small tables
-- must not find them again by reading the table.
-- The gaps of a line lie between the stretches in which something waited already and the spans of the newcomers. Few are kept: those above
-- newcomers that came before others, whose place is where others were served; and while p_is_open says that somebody has not
-- committed many, the one behind the tail, and the one in which p_missing_id would stand: they may be full of them.
CREATE OR REPLACE FUNCTION ring_place (
    p_wakes wake[], p_now BIGINT, p_floor_at BIGINT, p_floor_turn BIGINT, p_tail_at BIGINT, p_is_open BOOLEAN, p_missing_id BIGINT,
    OUT held TEXT[], OUT held_at BIGINT[], OUT held_id BIGINT[])
LANGUAGE plpgsql AS $$
DECLARE
    c_end CONSTANT BIGINT := 9223372036854775807;
    -- One element a channel that is to be written:
    v_tid TID[]; v_channel TEXT[]; v_is_kept BOOLEAN[]; v_is_full BOOLEAN[]; v_due_at BIGINT[]; v_head_at BIGINT[]; v_head_id BIGINT[];
    v_gaps TEXT[]; v_tail_at BIGINT[];
BEGIN
    WITH said AS MATERIALIZED (
        SELECT w.channel, MIN(ARRAY[w.lo_at, w.lo_id]) FILTER (WHERE w.lo_at IS NOT NULL) AS lo,
            MAX(w.hi_at) AS hi_at, BOOL_OR(w.lo_at IS NULL) AS is_look,
            array_agg(ARRAY[w.lo_at, w.lo_id, w.hi_at, w.hi_id]) FILTER (WHERE w.lo_at IS NOT NULL) AS spans
        FROM unnest(p_wakes) w WHERE w.channel IS NOT NULL GROUP BY w.channel ORDER BY 2),
    known AS MATERIALIZED (
        SELECT s.*, last.turn IS NOT NULL AS is_known, r.ctid AS tid, r.turn, r.due_at, r.is_full AS was_full, r.is_full AND NOT s.is_look AS is_full, r.released_at,
            CASE WHEN r.head_at IS NOT NULL THEN ARRAY[r.head_at, r.head_id] END AS head, r.gaps, r.tail_at,
            COALESCE(c.paused, FALSE) AS is_paused, COALESCE(c.release_interval_ms, 0) AS interval_ms
        FROM said s
        LEFT JOIN LATERAL (SELECT r.turn FROM ring r WHERE r.channel = s.channel ORDER BY r.turn DESC LIMIT 1) last ON TRUE
        LEFT JOIN LATERAL (SELECT r.ctid, r.* FROM ring r WHERE r.channel = s.channel AND r.turn = last.turn FOR UPDATE SKIP LOCKED) r ON TRUE
        LEFT JOIN LATERAL (SELECT * FROM channel c WHERE c.name = s.channel OFFSET 0) c ON TRUE),
    headed AS MATERIALIZED (
        SELECT k.*, LEAST(k.head, k.lo) AS new_head,
            -- Set well ahead, so that it need not be written again soon. Of a line that was empty nothing is to be kept.
            CASE WHEN NOT e.is_beyond THEN e.tail_at
                 WHEN k.hi_at < c_end THEN k.hi_at + GREATEST(10000, k.hi_at - p_tail_at) ELSE c_end END AS new_tail,
            CASE WHEN e.is_before OR p_is_open AND e.is_beyond AND (k.head IS NOT NULL OR array_length(k.spans, 1) > 1) THEN (
                SELECT array_agg(g.since || g.lo ORDER BY g.lo)
                FROM (
                    SELECT s.since, s.lo
                    FROM (
                        SELECT s.lo, s.is_old, MAX(s.hi) OVER (ORDER BY s.lo, s.is_old DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS since
                        FROM (
                            SELECT ARRAY[k.spans[i][1], k.spans[i][2]] AS lo, ARRAY[k.spans[i][3], k.spans[i][4]] AS hi, FALSE AS is_old
                            FROM generate_subscripts(k.spans, 1) i
                            UNION ALL
                            SELECT o.lo, CASE WHEN i < e.n THEN ARRAY[k.gaps[i + 1][1], k.gaps[i + 1][2]]
                                WHEN p_is_open THEN GREATEST(o.lo, ARRAY[GREATEST(p_tail_at, e.tail_at), 0]) ELSE ARRAY[c_end, c_end] END, TRUE
                            FROM generate_series(0, e.n) i
                            CROSS JOIN LATERAL (SELECT CASE WHEN i = 0 THEN k.head ELSE ARRAY[k.gaps[i][3], k.gaps[i][4]] END AS lo) o
                            WHERE k.head IS NOT NULL) s) s
                    WHERE s.since < s.lo AND (s.is_old OR p_is_open AND (s.since[2] = 0 OR p_missing_id BETWEEN s.since[2] AND s.lo[2]))
                    -- Where least time has passed, least was served.
                    ORDER BY LEAST(s.lo[1], p_now) - s.since[1] DESC, s.lo[2] - s.since[2] DESC LIMIT 4) g)
                ELSE k.gaps END AS new_gaps
        FROM known k
        CROSS JOIN LATERAL (
            SELECT l.*, COALESCE(k.hi_at >= GREATEST(p_tail_at, l.tail_at), FALSE) AS is_beyond,
                COALESCE(k.lo < CASE WHEN l.n > 0 THEN ARRAY[k.gaps[l.n][3], k.gaps[l.n][4]] ELSE k.head END, FALSE) AS is_before
            FROM (SELECT CASE WHEN k.head IS NOT NULL THEN k.tail_at END AS tail_at, COALESCE(array_length(k.gaps, 1), 0) AS n) l) e),
    readied AS MATERIALIZED (
        SELECT h.*, CASE WHEN NOT h.is_paused AND h.new_head IS NOT NULL THEN
            GREATEST(h.new_head[1], CASE WHEN h.interval_ms > 0 THEN
                CASE WHEN h.released_at > p_now + 1000 THEN p_now ELSE h.released_at END + h.interval_ms END) END AS ready_at
        FROM headed h),
    placed AS MATERIALIZED (
        SELECT r.*, CASE WHEN r.ready_at IS NULL OR r.due_at IS NULL THEN r.ready_at IS NULL AND r.due_at IS NULL
            ELSE (r.due_at, r.turn) >= (p_floor_at, p_floor_turn)
                AND (r.due_at <= GREATEST(r.ready_at, p_now) OR (r.is_full AND NOT r.is_look)) END AS is_kept,
            r.is_known AND r.turn IS NULL AS is_held
        FROM readied r),
    written AS (
        SELECT p.*, CASE WHEN p.is_kept THEN p.due_at WHEN p.ready_at IS NOT NULL THEN GREATEST(p.ready_at, p_now, p_floor_at) END AS new_due
        FROM placed p
        WHERE NOT p.is_held AND CASE WHEN p.is_known
            THEN NOT p.is_kept OR p.is_full <> p.was_full OR p.new_head IS DISTINCT FROM p.head OR p.new_gaps IS DISTINCT FROM p.gaps
                OR p.new_head IS NOT NULL AND p.new_tail IS DISTINCT FROM p.tail_at ELSE p.lo IS NOT NULL END)
    SELECT w.*, h.* INTO v_tid, v_channel, v_is_kept, v_is_full, v_due_at, v_head_at, v_head_id, v_gaps, v_tail_at,
        held, held_at, held_id
    FROM (
        SELECT array_agg(w.tid), array_agg(w.channel), array_agg(w.is_kept), array_agg(w.is_full AND w.is_kept), array_agg(w.new_due),
            array_agg(w.new_head[1]), array_agg(w.new_head[2]), array_agg(w.new_gaps::TEXT), array_agg(w.new_tail)
        FROM written w) w
    CROSS JOIN (SELECT array_agg('c' || p.channel), array_agg(p.lo[1]), array_agg(p.lo[2]) FROM placed p WHERE p.is_held) h;
    IF v_channel IS NOT NULL THEN
        UPDATE ring r
        SET turn = CASE WHEN p.is_kept THEN r.turn ELSE nextval('turn') END, due_at = p.due_at, is_full = p.is_full,
            head_at = p.head_at, head_id = p.head_id, gaps = p.gaps::BIGINT[], tail_at = p.tail_at,
            -- Far ahead, it is from before the clock was set back; a little, from a dequeue that came after this fold began.
            released_at = CASE WHEN r.released_at > p_now + 1000 THEN p_now ELSE r.released_at END
        FROM unnest(v_tid, v_is_kept, v_is_full, v_due_at, v_head_at, v_head_id, v_gaps, v_tail_at)
            p (tid, is_kept, is_full, due_at, head_at, head_id, gaps, tail_at)
        WHERE r.ctid = p.tid;
        -- A channel that is new to the ring has nothing leased: maintain keeps the rows of those that have.
        INSERT INTO ring (channel, turn, due_at, head_at, head_id, gaps, tail_at, running)
        SELECT p.channel, nextval('turn'), p.due_at, p.head_at, p.head_id, p.gaps::BIGINT[], p.tail_at, '{}'
        FROM unnest(v_tid, v_channel, v_due_at, v_head_at, v_head_id, v_gaps, v_tail_at) p (tid, channel, due_at, head_at, head_id, gaps, tail_at)
        WHERE p.tid IS NULL;
    END IF;
END $$;
