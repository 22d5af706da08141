-- Move up to p_room messages of a lane from the lines to ready, lowest tag first. No message is moved if its tag is
-- higher than the lowest tag that stays in an open line. If a channel may not release, its line is closed until a
-- notice or an alarm reopens it. p_channels: only the lines of these channels count, as if there were no others.
-- Returns how many messages were moved, and their highest tag.
CREATE OR REPLACE FUNCTION lane_refill (
    l lane_state, p_room INT, p_has_policies BOOLEAN, p_is_limited BOOLEAN, p_now BIGINT,
    p_channels TEXT[] DEFAULT NULL, OUT put INT, OUT issued BIGINT)
LANGUAGE plpgsql SET enable_hashjoin TO on AS $$ -- for arrays; tables are read by LATERAL
DECLARE
    v_lines line_state[];                   -- the new state of lines that changed
    v_limited ready[];                      -- the moved messages that take slots
BEGIN
    WITH front AS MATERIALIZED (            -- the open lines with the lowest tags
        SELECT b.*, ROW_NUMBER() OVER (ORDER BY b.tag, b.turn) AS ord
        FROM (
            (SELECT b.channel, b.ctid AS tid, b.turn, b.tag, b.n, b.ranges FROM backlog b
            WHERE p_channels IS NULL AND b.is_open AND b.lane = l.name AND b.tag >= l.v
            ORDER BY b.lane, b.tag, b.turn LIMIT p_room + 1)
            UNION ALL
            (SELECT u.name, b.tid, b.turn, b.tag, b.n, b.ranges FROM unnest(p_channels) u (name)
            CROSS JOIN LATERAL backlog_live(u.name, l.name) b WHERE b.is_open AND b.ranges <> '{}'
            ORDER BY b.tag, b.turn LIMIT p_room + 1)) b),
    size AS MATERIALIZED (                  -- how many lines are read; next: the lowest tag of the others
        SELECT LEAST(p_room, COUNT(*)) AS n, MIN(f.tag) FILTER (WHERE f.ord > p_room) AS next
        FROM front f HAVING COUNT(*) > 0),
    rooms AS MATERIALIZED (                 -- what their channels may release
        SELECT r.* FROM (SELECT array_agg(f.channel) AS names FROM front f HAVING p_has_policies) x
        CROSS JOIN LATERAL channel_room(x.names, p_now) r),
    lines AS MATERIALIZED (                 -- and how many messages of each are wanted
        SELECT k.*, LEAST(k.part, k.room) AS want
        FROM (
            SELECT f.*, x.step, r.room, r.again_at, s.next, -- part: its share of p_room
                1 + floor((p_room - s.n) / x.step / SUM(1 / x.step) OVER ())::INT AS part
            FROM front f CROSS JOIN size s LEFT JOIN rooms r ON r.channel = f.channel
            CROSS JOIN LATERAL (SELECT COALESCE(r.step, weight_step(NULL)) AS step) x WHERE f.ord <= p_room) k),
    got AS MATERIALIZED (                   -- of each line one more than may be taken, for its next tag
        SELECT k.ord, k.channel, k.want, k.part, k.next, k.room, e.*, ROW_NUMBER() OVER line_order AS nth,
            k.tag + SUM(x.step) OVER line_order - x.step AS tag, k.tag + SUM(x.step) OVER line_order AS after
        FROM lines k
        CROSS JOIN LATERAL (
            SELECT e.* FROM unnest(k.ranges) s
            CROSS JOIN LATERAL (
                SELECT e.ctid AS tid, e.rank, e.at, e.id, e.generation, e.cost FROM line e
                WHERE k.want > 0 AND e.channel = k.channel AND e.lane = l.name
                    AND (e.rank, e.at, e.id) >= (s.lo_rank, s.lo_at, s.lo_id)
                    AND (e.rank, e.at, e.id) <= (s.hi_rank, s.hi_at, s.hi_id)
                ORDER BY e.channel, e.lane, e.rank, e.at, e.id LIMIT k.want + 1) e
            LIMIT k.want + 1) e
        CROSS JOIN LATERAL (SELECT tag_step(e.cost, k.step, e.id) AS step) x
        WINDOW line_order AS (PARTITION BY k.ord ORDER BY e.rank, e.at, e.id, e.generation ROWS UNBOUNDED PRECEDING)),
    chosen AS MATERIALIZED (                -- is_moved: it is moved to ready
        SELECT g.*, g.nth <= g.want AND COALESCE(g.tag <= LEAST(cut.tag, g.next), TRUE) AS is_moved
        FROM got g
        CROSS JOIN (SELECT MIN(g.tag) FILTER (WHERE g.nth > g.part) AS tag FROM got g) cut),
    off_line AS (DELETE FROM line e WHERE e.ctid = ANY (ARRAY(SELECT m.tid FROM chosen m WHERE m.is_moved))),
    to_ready AS (
        INSERT INTO ready (lane, tag, id, generation, rank, at, cost, is_limited, channel)
        SELECT l.name, m.tag, m.id, m.generation, m.rank, m.at, m.cost,
            p_is_limited OR room_is_short(m.room, m.nth), m.channel
        FROM chosen m WHERE m.is_moved),
    sums AS MATERIALIZED (                  -- per line: how many are moved, its next tag and message
        SELECT m.ord, COUNT(*) FILTER (WHERE m.is_moved) AS n, MAX(m.after) FILTER (WHERE m.is_moved) AS after,
            MIN(ARRAY[m.rank, m.at, m.id]) FILTER (WHERE NOT m.is_moved) AS next
        FROM chosen m GROUP BY m.ord),
    total AS MATERIALIZED (
        SELECT COUNT(*) AS put, MAX(m.tag) AS issued,
            array_agg(ROW(l.name, m.tag, m.id, m.generation, m.rank, m.at, m.cost, TRUE, m.channel)::ready)
                FILTER (WHERE p_is_limited OR m.room IS NOT NULL) AS limited
        FROM chosen m WHERE m.is_moved)
    SELECT t.put, t.issued, t.limited, k.lines INTO put, issued, v_limited, v_lines
    FROM total t
    CROSS JOIN (
        SELECT array_agg(ROW(k.tid, k.channel, COALESCE(s.after, k.tag),
            COALESCE(k.room > s.n, k.room IS NULL) AND s.next IS NOT NULL, k.n - COALESCE(s.n, 0),
            CASE WHEN k.want = 0 THEN k.ranges WHEN s.next IS NULL THEN '{}'
                WHEN (s.next[1], s.next[2], s.next[3]) <= (x.hi_rank, x.hi_at, x.hi_id)
                THEN ROW(s.next[1], s.next[2], s.next[3], x.hi_rank, x.hi_at, x.hi_id)::line_range || k.ranges[2:]
                ELSE COALESCE(ranges_from(k.ranges, s.next), '{}') END,
            k.again_at)::line_state) AS lines
        FROM lines k CROSS JOIN LATERAL (SELECT (k.ranges[1]).*) x LEFT JOIN sums s ON s.ord = k.ord
        WHERE k.want = 0 OR COALESCE(s.n, 0) > 0 OR s.next IS NULL) k;
    IF v_lines IS NOT NULL THEN
        PERFORM backlog_write(l.name, v_lines);
    END IF;
    IF v_limited IS NOT NULL THEN
        PERFORM slots_add(v_limited, p_now);
    END IF;
END $$;
