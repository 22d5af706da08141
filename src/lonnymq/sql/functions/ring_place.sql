-- Part of a fold: give the channels of p_wakes their place in the ring. A channel joins at the end of the line, never before;
-- one that stands in it keeps its place, whatever arrives; only a later due time falls to now.
-- A row that a consumer holds is not waited for: its channel is postponed. p_late: channels that were.
CREATE OR REPLACE FUNCTION ring_place (p_wakes wake[], p_late TEXT[], p_now BIGINT, p_floor_at BIGINT, p_floor_turn BIGINT)
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_busy TEXT[];
    v_lo_at BIGINT[];
    v_lo_id BIGINT[];
BEGIN
    WITH said AS MATERIALIZED (
        SELECT w.channel, MIN(ARRAY[w.lo_at, w.lo_id]) FILTER (WHERE w.lo_at IS NOT NULL) AS lo,
            BOOL_OR(w.lo_at IS NULL) AS is_look,
            array_agg(ARRAY[w.lo_at, w.lo_id, w.hi_at, w.hi_id]) FILTER (WHERE w.lo_at IS NOT NULL) AS spans
        FROM unnest(p_wakes) w WHERE w.channel IS NOT NULL GROUP BY w.channel ORDER BY 2),
    known AS MATERIALIZED (
        SELECT s.*, last.turn IS NOT NULL AS is_known, r.turn, r.due_at, r.is_full, r.released_at,
            CASE WHEN r.head_at IS NOT NULL THEN ARRAY[r.head_at, r.head_id] END AS head,
            CASE WHEN r.skip_to_at IS NOT NULL THEN ARRAY[r.skip_from_at, r.skip_from_id] END AS skip_from,
            CASE WHEN r.skip_to_at IS NOT NULL THEN ARRAY[r.skip_to_at, r.skip_to_id]
                 WHEN r.head_at IS NOT NULL THEN ARRAY[r.head_at, r.head_id] END AS edge,
            COALESCE(c.paused, FALSE) AS is_paused, COALESCE(c.release_interval_ms, 0) AS interval_ms
        FROM said s
        LEFT JOIN LATERAL (SELECT r.turn FROM ring r WHERE r.channel = s.channel ORDER BY r.turn DESC LIMIT 1) last ON TRUE
        LEFT JOIN LATERAL (SELECT * FROM ring r WHERE r.channel = s.channel AND r.turn = last.turn FOR UPDATE SKIP LOCKED) r ON TRUE
        LEFT JOIN channel c ON c.name = s.channel),
    headed AS MATERIALIZED (
        SELECT k.*, LEAST(k.head, k.lo) AS new_head, GREATEST(k.skip_from, low.hi) AS new_from
        FROM known k
        CROSS JOIN LATERAL (                -- how far up the newcomers below the edge reach
            SELECT MAX(ARRAY[k.spans[i][3], k.spans[i][4]]) AS hi
            FROM generate_subscripts(k.spans, 1) i WHERE ARRAY[k.spans[i][1], k.spans[i][2]] < k.edge) low),
    readied AS MATERIALIZED (
        SELECT h.*,
            CASE WHEN NOT h.is_paused THEN GREATEST(h.new_head[1], CASE WHEN h.interval_ms > 0 AND h.new_head IS NOT NULL THEN h.released_at + h.interval_ms END) END AS ready_at
        FROM headed h),
    placed AS MATERIALIZED (
        SELECT x.*,
            CASE WHEN x.is_kept THEN x.due_at WHEN x.ready_at IS NOT NULL THEN GREATEST(x.ready_at, p_now, p_floor_at) END AS new_due
        FROM (
            SELECT y.*, CASE WHEN y.ready_at IS NULL OR y.due_at IS NULL THEN y.ready_at IS NULL AND y.due_at IS NULL
                ELSE (y.due_at, y.turn) >= (p_floor_at, p_floor_turn)
                    AND (y.due_at <= GREATEST(y.ready_at, p_now) OR (y.is_full AND NOT y.is_look)) END AS is_kept
            FROM readied y) x),
    moved AS (
        UPDATE ring r
        SET turn = CASE WHEN p.is_kept THEN r.turn ELSE nextval('turn') END,
            due_at = p.new_due, is_full = p.is_full AND p.is_kept,
            head_at = p.new_head[1], head_id = p.new_head[2],
            skip_from_at = CASE WHEN p.new_from < p.edge THEN p.new_from[1] END,
            skip_from_id = CASE WHEN p.new_from < p.edge THEN p.new_from[2] END,
            skip_to_at = CASE WHEN p.new_from < p.edge THEN p.edge[1] END,
            skip_to_id = CASE WHEN p.new_from < p.edge THEN p.edge[2] END
        FROM placed p
        WHERE r.channel = p.channel AND r.turn = p.turn
            AND (NOT p.is_kept OR p.new_head IS DISTINCT FROM p.head OR p.new_from IS DISTINCT FROM p.skip_from)),
    joined AS (
        INSERT INTO ring (channel, turn, due_at, head_at, head_id)
        SELECT p.channel, nextval('turn'), p.new_due, p.new_head[1], p.new_head[2]
        FROM placed p WHERE NOT p.is_known AND p.lo IS NOT NULL)
    SELECT array_agg(p.channel), array_agg(p.lo[1]), array_agg(p.lo[2]) INTO v_busy, v_lo_at, v_lo_id
    FROM placed p WHERE p.is_known AND p.turn IS NULL;
    IF p_late IS NOT NULL THEN
        DELETE FROM postponed WHERE channel = ANY (p_late) AND (channel <> ALL (v_busy)) IS NOT FALSE;
        UPDATE postponed SET pause_ms = LEAST(1000, pause_ms * 2), due_at = p_now + LEAST(1000, pause_ms * 2)
        WHERE channel = ANY (p_late);
    END IF;
    -- Said again only when it says something new: a channel held for long is written once, not at every fold.
    INSERT INTO postponed AS p (channel, lo_at, lo_id, due_at)
    SELECT b.channel, b.lo_at, b.lo_id, p_now + 2 FROM unnest(v_busy, v_lo_at, v_lo_id) b (channel, lo_at, lo_id)
    ON CONFLICT (channel) WHERE channel IS NOT NULL
    DO UPDATE SET lo_at = EXCLUDED.lo_at, lo_id = EXCLUDED.lo_id
    WHERE p.lo_at IS NULL AND EXCLUDED.lo_at IS NOT NULL OR (EXCLUDED.lo_at, EXCLUDED.lo_id) < (p.lo_at, p.lo_id);
END $$;
