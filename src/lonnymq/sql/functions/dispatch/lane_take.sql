-- Part of a refill: move messages from lines to ready, up to p_part - 1 of each line and p_room in all, and write down how the
-- lines stand then.
CREATE OR REPLACE FUNCTION lane_take (
    p_lane TEXT, p_lines backlog[], p_part INT, p_next BIGINT, p_room INT, p_has_policies BOOLEAN, p_is_limited BOOLEAN,
    p_now BIGINT, OUT put INT, OUT issued BIGINT)
LANGUAGE plpgsql SET enable_hashjoin TO on AS $$ -- of what it has in hand: the tables are read by LATERAL
DECLARE
    v_limited ready[];
BEGIN
    WITH rooms AS MATERIALIZED (
        SELECT r.* FROM channel_room(CASE WHEN p_has_policies
            THEN ARRAY(SELECT b.channel FROM unnest(p_lines) b) ELSE '{}' END, p_now) r),
    lines AS MATERIALIZED (
        SELECT b.*, COALESCE(r.step, 1000) AS step, r.room, r.again_at, LEAST(p_part - 1, r.room) AS want,
            COALESCE(r.is_limited, FALSE) OR p_is_limited AS is_limited
        FROM unnest(p_lines) b LEFT JOIN rooms r ON r.channel = b.channel),
    got AS MATERIALIZED (
        SELECT k.channel, k.want, k.held, k.is_limited, k.tag AS first, e.*, x.step, COUNT(*) OVER line_order AS nth,
            k.tag + SUM(x.step) OVER line_order - x.step AS tag
        FROM lines k
        CROSS JOIN LATERAL (
            SELECT e.* FROM unnest(k.stretches) s
            CROSS JOIN LATERAL (
                SELECT e.ctid AS tid, e.rank, e.at, e.id, e.generation, e.cost FROM line e
                WHERE e.channel = k.channel AND e.lane = p_lane AND (e.rank, e.at, e.id) >= (s.lo_rank, s.lo_at, s.lo_id)
                    AND (e.rank, e.at, e.id) <= (s.hi_rank, s.hi_at, s.hi_id)
                ORDER BY e.channel, e.lane, e.rank, e.at, e.id LIMIT k.want + k.held + 1) e
            WHERE k.want > 0 LIMIT k.want + k.held + 1) e
        CROSS JOIN LATERAL (SELECT tag_step(e.cost, k.step, e.id) AS step) x
        WINDOW line_order AS (PARTITION BY k.channel ORDER BY e.rank, e.at, e.id ROWS UNBOUNDED PRECEDING)),
    tried AS MATERIALIZED (                 -- nothing above the first tag that stays behind
        SELECT c.*, m.tid IS NOT NULL AS is_free
        FROM (
            SELECT g.*, g.nth <= g.want + g.held AND COALESCE(g.tag <= cut.tag, TRUE)
                AND ROW_NUMBER() OVER (ORDER BY g.nth > g.want + g.held, g.tag, g.id) <= p_room + g.held AS is_next
            FROM got g
            CROSS JOIN (SELECT LEAST(MIN(g.tag) FILTER (WHERE g.nth = p_part + g.held), p_next) AS tag FROM got g) cut) c
        LEFT JOIN LATERAL (
            SELECT e.ctid AS tid FROM line e WHERE c.is_next AND e.ctid = c.tid FOR UPDATE SKIP LOCKED) m ON TRUE),
    mine AS MATERIALIZED (                  -- what somebody holds takes no tag, and no room
        SELECT t.*, t.is_free AND COUNT(*) FILTER (WHERE t.is_free) OVER line_order <= t.want
                AND ROW_NUMBER() OVER (ORDER BY t.is_free DESC, t.tag, t.id) <= p_room AS is_mine,
            t.first + SUM(t.step) FILTER (WHERE t.is_free) OVER line_order AS after
        FROM tried t
        WINDOW line_order AS (PARTITION BY t.channel ORDER BY t.rank, t.at, t.id ROWS UNBOUNDED PRECEDING)),
    off_line AS (DELETE FROM line e WHERE e.ctid = ANY (ARRAY(SELECT m.tid FROM mine m WHERE m.is_mine))),
    to_ready AS (
        INSERT INTO ready (lane, tag, id, generation, rank, at, cost, is_limited, channel)
        SELECT p_lane, m.after - m.step, m.id, m.generation, m.rank, m.at, m.cost, m.is_limited, m.channel
        FROM mine m WHERE m.is_mine ORDER BY m.after - m.step, m.id),
    sums AS MATERIALIZED (                  -- what is held behind the next one is found from there
        SELECT m.channel, COUNT(*) FILTER (WHERE m.is_mine) AS n, MAX(m.after) FILTER (WHERE m.is_mine) AS after,
            COUNT(*) FILTER (WHERE m.is_held) AS held, MIN(m.spot) FILTER (WHERE m.is_next_one) AS next,
            MIN(m.spot) FILTER (WHERE m.is_held AND COALESCE(m.spot < m.next_spot, TRUE)) AS lo,
            MAX(m.spot) FILTER (WHERE m.is_held AND COALESCE(m.spot < m.next_spot, TRUE)) AS hi
        FROM (
            SELECT x.*, MIN(x.spot) FILTER (WHERE x.is_next_one) OVER (PARTITION BY x.channel) AS next_spot
            FROM (
                SELECT m.*, ARRAY[m.rank, m.at, m.id] AS spot, m.is_next AND NOT m.is_free AS is_held,
                    NOT m.is_mine AND (m.is_free OR NOT m.is_next) AS is_next_one
                FROM mine m) x) m
        GROUP BY m.channel),
    turned AS MATERIALIZED (
        SELECT k.channel, k.turn, COALESCE(s.after, k.tag) AS tag, k.n - COALESCE(s.n, 0) AS n, COALESCE(s.held, k.held) AS held,
            CASE WHEN s.held > 0 AND s.next IS NULL THEN p_now + 1000 ELSE k.again_at END AS again_at,
            COALESCE(k.room > s.n, k.room IS NULL) AND (k.want > 0 AND s.next IS NOT NULL) AS is_open,
            CASE WHEN k.want = 0 THEN k.stretches
                WHEN s.lo IS NULL AND s.next IS NOT NULL AND cardinality(k.stretches) = 1 THEN ARRAY[ROW(s.next[1], s.next[2],
                    s.next[3], (k.stretches[1]).hi_rank, (k.stretches[1]).hi_at, (k.stretches[1]).hi_id)::stretch]
                ELSE CASE WHEN s.lo IS NOT NULL THEN ARRAY[ROW(s.lo[1], s.lo[2], s.lo[3], s.hi[1], s.hi[2], s.hi[3])::stretch] END
                    || stretches_from(k.stretches, s.next) END AS stretches
        FROM lines k LEFT JOIN sums s ON s.channel = k.channel
        WHERE k.want = 0 OR COALESCE(s.n, 0) > 0 OR s.next IS NULL OR s.held <> k.held),
    gone AS (
        DELETE FROM backlog b WHERE b.ctid = ANY (ARRAY(
            SELECT x.tid FROM turned t CROSS JOIN LATERAL (
                SELECT b.ctid AS tid FROM backlog b
                WHERE b.channel = t.channel AND b.lane = p_lane AND b.turn = t.turn OFFSET 0) x))),
    stay AS (
        INSERT INTO backlog (channel, lane, turn, tag, is_open, n, held, stretches)
        SELECT t.channel, p_lane, nextval('turn'), t.tag, t.is_open, t.n, t.held, t.stretches
        FROM turned t WHERE cardinality(t.stretches) > 0),
    remembered AS (                         -- where a line is at its end, its next message goes on from there if it comes soon
        INSERT INTO recent (channel, lane, tag) SELECT t.channel, p_lane, t.tag FROM turned t
        WHERE COALESCE(cardinality(t.stretches), 0) = 0 ON CONFLICT DO NOTHING),
    later AS (
        INSERT INTO alarm (at, channel) SELECT t.again_at, t.channel FROM turned t
        WHERE NOT t.is_open AND t.again_at IS NOT NULL AND cardinality(t.stretches) > 0)
    SELECT COUNT(*) FILTER (WHERE m.is_mine), MAX(m.after - m.step) FILTER (WHERE m.is_mine),
        array_agg(ROW(p_lane, m.after - m.step, m.id, m.generation, m.rank, m.at, m.cost, TRUE, m.channel)::ready)
            FILTER (WHERE m.is_mine AND m.is_limited)
    INTO put, issued, v_limited FROM mine m;
    IF v_limited IS NOT NULL THEN
        PERFORM slots_take(v_limited, p_now);
    END IF;
END $$;
