-- Part of a fold: give the channels of p_wakes their place in the ring. A channel joins at the end of the line, never before;
-- one that stands in it keeps its place, whatever arrives; only a later due time falls to now.
-- A row that a consumer holds is not waited for: its channel is returned, to be postponed.
-- Rows are locked and weighed in one statement and written in the next, by their address: a plan made for small tables
-- must not find them again by reading the table.
CREATE OR REPLACE FUNCTION ring_place (
    p_wakes wake[], p_now BIGINT, p_floor_at BIGINT, p_floor_turn BIGINT, OUT held TEXT[], OUT held_at BIGINT[], OUT held_id BIGINT[])
LANGUAGE plpgsql AS $$
DECLARE
    -- One element a channel that is to be written:
    v_tid TID[]; v_channel TEXT[]; v_is_kept BOOLEAN[]; v_is_full BOOLEAN[]; v_due_at BIGINT[]; v_head_at BIGINT[]; v_head_id BIGINT[];
    v_from_at BIGINT[]; v_from_id BIGINT[]; v_to_at BIGINT[]; v_to_id BIGINT[];
BEGIN
    WITH said AS MATERIALIZED (
        SELECT w.channel, MIN(ARRAY[w.lo_at, w.lo_id]) FILTER (WHERE w.lo_at IS NOT NULL) AS lo,
            BOOL_OR(w.lo_at IS NULL) AS is_look,
            array_agg(ARRAY[w.lo_at, w.lo_id, w.hi_at, w.hi_id]) FILTER (WHERE w.lo_at IS NOT NULL) AS spans
        FROM unnest(p_wakes) w WHERE w.channel IS NOT NULL GROUP BY w.channel ORDER BY 2),
    known AS MATERIALIZED (
        SELECT s.*, last.turn IS NOT NULL AS is_known, r.ctid AS tid, r.turn, r.due_at, r.is_full AS was_full, r.is_full AND NOT s.is_look AS is_full, r.released_at,
            CASE WHEN r.head_at IS NOT NULL THEN ARRAY[r.head_at, r.head_id] END AS head,
            CASE WHEN skip.is_kept THEN ARRAY[r.skip_from_at, r.skip_from_id] END AS skip_from,
            CASE WHEN skip.is_kept THEN ARRAY[r.skip_to_at, r.skip_to_id] WHEN r.head_at IS NOT NULL THEN ARRAY[r.head_at, r.head_id] END AS edge,
            COALESCE(c.paused, FALSE) AS is_paused, COALESCE(c.release_interval_ms, 0) AS interval_ms
        FROM said s
        LEFT JOIN LATERAL (SELECT r.turn FROM ring r WHERE r.channel = s.channel ORDER BY r.turn DESC LIMIT 1) last ON TRUE
        LEFT JOIN LATERAL (SELECT r.ctid, r.* FROM ring r WHERE r.channel = s.channel AND r.turn = last.turn FOR UPDATE SKIP LOCKED) r ON TRUE
        -- A stretch that ends at what is for later gives way to a new one that ends at what is due: more was served there.
        CROSS JOIN LATERAL (SELECT r.skip_to_at <= p_now OR r.skip_to_at IS NOT NULL AND (s.lo < ARRAY[r.head_at, r.head_id]) IS NOT TRUE AS is_kept) skip
        LEFT JOIN LATERAL (SELECT * FROM channel c WHERE c.name = s.channel OFFSET 0) c ON TRUE),
    headed AS MATERIALIZED (
        SELECT k.*, LEAST(k.head, k.lo) AS new_head, GREATEST(k.skip_from, low.hi) AS new_from
        FROM known k
        CROSS JOIN LATERAL (                -- how far up the newcomers below the edge reach
            SELECT MAX(ARRAY[k.spans[i][3], k.spans[i][4]]) AS hi
            FROM generate_subscripts(k.spans, 1) i WHERE ARRAY[k.spans[i][1], k.spans[i][2]] < k.edge) low),
    readied AS MATERIALIZED (
        SELECT h.*, CASE WHEN NOT h.is_paused AND h.new_head IS NOT NULL THEN
            GREATEST(h.new_head[1], CASE WHEN h.interval_ms > 0 THEN
                CASE WHEN h.released_at > p_now + 1000 THEN p_now ELSE h.released_at END + h.interval_ms END) END AS ready_at
        FROM headed h),
    placed AS MATERIALIZED (
        SELECT r.*, CASE WHEN r.ready_at IS NULL OR r.due_at IS NULL THEN r.ready_at IS NULL AND r.due_at IS NULL
            ELSE (r.due_at, r.turn) >= (p_floor_at, p_floor_turn)
                AND (r.due_at <= GREATEST(r.ready_at, p_now) OR (r.is_full AND NOT r.is_look)) END AS is_kept,
            COALESCE(r.new_from < r.edge, FALSE) AS is_skipping, r.is_known AND r.turn IS NULL AS is_held
        FROM readied r),
    written AS (
        SELECT p.*, CASE WHEN p.is_kept THEN p.due_at WHEN p.ready_at IS NOT NULL THEN GREATEST(p.ready_at, p_now, p_floor_at) END AS new_due
        FROM placed p
        WHERE NOT p.is_held AND CASE WHEN p.is_known
            THEN NOT p.is_kept OR p.is_full <> p.was_full OR p.new_head IS DISTINCT FROM p.head OR p.new_from IS DISTINCT FROM p.skip_from ELSE p.lo IS NOT NULL END)
    SELECT w.*, h.* INTO v_tid, v_channel, v_is_kept, v_is_full, v_due_at, v_head_at, v_head_id, v_from_at, v_from_id, v_to_at, v_to_id,
        held, held_at, held_id
    FROM (
        SELECT array_agg(w.tid), array_agg(w.channel), array_agg(w.is_kept), array_agg(w.is_full AND w.is_kept), array_agg(w.new_due),
            array_agg(w.new_head[1]), array_agg(w.new_head[2]),
            array_agg(CASE WHEN w.is_skipping THEN w.new_from[1] END), array_agg(CASE WHEN w.is_skipping THEN w.new_from[2] END),
            array_agg(CASE WHEN w.is_skipping THEN w.edge[1] END), array_agg(CASE WHEN w.is_skipping THEN w.edge[2] END)
        FROM written w) w
    CROSS JOIN (SELECT array_agg('c' || p.channel), array_agg(p.lo[1]), array_agg(p.lo[2]) FROM placed p WHERE p.is_held) h;
    IF v_channel IS NOT NULL THEN
        UPDATE ring r
        SET turn = CASE WHEN p.is_kept THEN r.turn ELSE nextval('turn') END, due_at = p.due_at, is_full = p.is_full,
            head_at = p.head_at, head_id = p.head_id,
            -- Far ahead, it is from before the clock was set back; a little, from a dequeue that came after this fold began.
            released_at = CASE WHEN r.released_at > p_now + 1000 THEN p_now ELSE r.released_at END,
            skip_from_at = p.from_at, skip_from_id = p.from_id, skip_to_at = p.to_at, skip_to_id = p.to_id
        FROM unnest(v_tid, v_is_kept, v_is_full, v_due_at, v_head_at, v_head_id, v_from_at, v_from_id, v_to_at, v_to_id)
            p (tid, is_kept, is_full, due_at, head_at, head_id, from_at, from_id, to_at, to_id)
        WHERE r.ctid = p.tid;
        -- A channel that is new to the ring has nothing leased: maintain keeps the rows of those that have.
        INSERT INTO ring (channel, turn, due_at, head_at, head_id, running)
        SELECT p.channel, nextval('turn'), p.due_at, p.head_at, p.head_id, '{}'
        FROM unnest(v_tid, v_channel, v_due_at, v_head_at, v_head_id) p (tid, channel, due_at, head_at, head_id) WHERE p.tid IS NULL;
    END IF;
END $$;
