-- Place messages of a lane that are due: straight into ready, if their channel has no line, may release, and their turn comes
-- before that of all lines (the horizon); else into their channel's line. p_room: how many more ready should have, where there
-- are no lines yet; p_queue_room: how many the limit over all channels allows.
-- Returns how many went into ready, the highest tag, and whether limits kept some out.
-- A message that belongs before one of its channel that is in ready already, because it is urgent or was committed late:
-- what stands behind it is taken back first, and gets new tags.
CREATE OR REPLACE FUNCTION lane_place (
    l lane_state, p_entries entry[], p_room INT, p_queue_room INT, p_has_policies BOOLEAN, p_now BIGINT,
    OUT put INT, OUT issued BIGINT, OUT is_blocked BOOLEAN)
LANGUAGE plpgsql SET enable_hashjoin TO on AS $$ -- of what it has in hand: the tables are read by LATERAL
DECLARE
    c_end CONSTANT BIGINT := 9223372036854775807;
    v_marks entry[];
    v_line ready[];
    v_limited ready[];
BEGIN
    SELECT array_agg(k.e) INTO v_marks
    FROM (SELECT DISTINCT ON (e.channel) e FROM unnest(p_entries) e ORDER BY e.channel, e.rank, e.at, e.id) k
    CROSS JOIN LATERAL (
        SELECT r.rank, r.at, r.id FROM ready r 
        WHERE (r.channel, r.lane, r.tag) >= ((k.e).channel, l.name, l.floor)
            AND (r.channel, r.lane) <= ((k.e).channel, l.name)
        ORDER BY r.channel DESC, r.lane DESC, r.tag DESC, r.id DESC LIMIT 1) last
    WHERE (last.rank, last.at, last.id) > ((k.e).rank, (k.e).at, (k.e).id);
    IF v_marks IS NOT NULL THEN
        PERFORM ready_take_back(l, v_marks);
    END IF;
    WITH rooms AS MATERIALIZED (
        SELECT r.* FROM channel_room(CASE WHEN p_has_policies
            THEN ARRAY(SELECT DISTINCT e.channel FROM unnest(p_entries) e) ELSE '{}' END, p_now) r),
    known AS MATERIALIZED (
        SELECT k.channel, b.turn IS NOT NULL AS has_line, x.step, r.room, COALESCE(r.is_limited, FALSE) OR p_queue_room IS NOT NULL AS is_limited,
            CASE WHEN last.tag IS NULL AND c.tag IS NULL THEN l.v + tag_step(1, x.step)
                ELSE GREATEST(l.v, last.tag + tag_step(last.cost, x.step), c.tag) END AS tag
        FROM (SELECT DISTINCT e.channel FROM unnest(p_entries) e) k
        LEFT JOIN rooms r ON r.channel = k.channel
        CROSS JOIN LATERAL (SELECT COALESCE(r.step, 1000) AS step) x
        LEFT JOIN LATERAL (
            SELECT b.turn FROM backlog b WHERE b.channel = k.channel AND b.lane = l.name
            ORDER BY b.channel DESC, b.lane DESC, b.turn DESC LIMIT 1) b ON TRUE
        LEFT JOIN LATERAL (
            SELECT r.tag, r.cost FROM ready r 
            WHERE (r.channel, r.lane, r.tag) >= (k.channel, l.name, l.floor) AND (r.channel, r.lane) <= (k.channel, l.name)
            ORDER BY r.channel DESC, r.lane DESC, r.tag DESC, r.id DESC LIMIT 1) last ON TRUE
        LEFT JOIN LATERAL (
            SELECT c.tag FROM recent c WHERE l.horizon < c_end AND c.channel = k.channel AND c.lane = l.name AND c.tag >= l.v
            ORDER BY c.channel DESC, c.lane DESC, c.tag DESC LIMIT 1) c ON TRUE),
    new AS MATERIALIZED (
        SELECT e.*, k.has_line, k.room, k.is_limited, k.tag + SUM(s.step) OVER line_order - s.step AS tag,
            COUNT(*) OVER line_order AS nth
        FROM unnest(p_entries) e JOIN known k ON k.channel = e.channel
        CROSS JOIN LATERAL (SELECT tag_step(e.cost, k.step) AS step) s
        WINDOW line_order AS (PARTITION BY e.channel ORDER BY e.rank, e.at, e.id ROWS UNBOUNDED PRECEDING)),
    placed AS MATERIALIZED (
        SELECT x.*, x.may AND (l.horizon < c_end OR x.rank_in_all <= p_room)
            AND COALESCE(x.rank_in_all <= p_queue_room, TRUE) AS is_direct
        FROM (
            SELECT y.*, ROW_NUMBER() OVER (ORDER BY y.may DESC, y.tag, y.id) AS rank_in_all
            FROM (
                SELECT n.*, NOT n.has_line AND n.tag < l.horizon AND COALESCE(n.nth <= n.room, TRUE) AS may FROM new n) y) x),
    to_ready AS (
        INSERT INTO ready (lane, tag, id, generation, rank, at, cost, is_limited, channel)
        SELECT l.name, p.tag, p.id, p.generation, p.rank, p.at, p.cost, p.is_limited, p.channel
        FROM placed p WHERE p.is_direct ORDER BY p.tag, p.id),
    remembered AS (
        INSERT INTO recent (channel, lane, tag)
        SELECT p.channel, l.name, MAX(p.tag + tag_step(p.cost, k.step)) FROM placed p JOIN known k ON k.channel = p.channel
        WHERE p.is_direct AND l.horizon < c_end GROUP BY p.channel
        ON CONFLICT DO NOTHING)
    SELECT COUNT(*) FILTER (WHERE p.is_direct),
        MAX(p.tag) FILTER (WHERE p.is_direct), COALESCE(BOOL_OR(NOT p.is_direct AND p.room IS NOT NULL), FALSE),
        array_agg(ROW(l.name, CASE WHEN p.has_line THEN c_end ELSE p.tag END, p.id, p.generation, p.rank, p.at, p.cost,
            p.is_limited, p.channel)::ready) FILTER (WHERE NOT p.is_direct),
        array_agg(ROW(l.name, p.tag, p.id, p.generation, p.rank, p.at, p.cost, p.is_limited, p.channel)::ready)
            FILTER (WHERE p.is_direct AND p.is_limited)
    INTO put, issued, is_blocked, v_line, v_limited FROM placed p;
    IF v_line IS NOT NULL THEN
        PERFORM line_add(l.name, v_line);
    END IF;
    IF v_limited IS NOT NULL THEN
        PERFORM slots_take(v_limited, p_now);
    END IF;
END $$;
