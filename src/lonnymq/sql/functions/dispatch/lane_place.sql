-- Place messages of a lane that are due: straight into ready, if their channel has no line, may release, and their
-- turn comes before that of all lines (the horizon); else into their channel's line. p_room: how many more ready
-- should have, where there are no lines yet; p_queue_room: how many the limit over all channels allows. Returns how
-- many went into ready, the highest tag, and whether limits kept some out. A message that belongs before one of its
-- channel that is in ready already, because it is urgent or was committed late: what stands behind it is taken back
-- first, and gets new tags.
CREATE OR REPLACE FUNCTION lane_place (
    l lane_state, p_entries entry[], p_room INT, p_queue_room INT, p_has_policies BOOLEAN, p_now BIGINT,
    OUT put INT, OUT issued BIGINT, OUT is_blocked BOOLEAN)
LANGUAGE plpgsql SET enable_hashjoin TO on AS $$ -- of what it has in hand: the tables are read by LATERAL
DECLARE
    c_end CONSTANT BIGINT := 9223372036854775807;
    v_known standing[];
    v_line ready[];
    v_limited ready[];
    v_has_costs BOOLEAN;
    v_is_kept BOOLEAN;                      -- where channels go on must be remembered
    v_first standing;
    v_one entry;
BEGIN
    v_known := lane_standing(l, p_entries, p_has_policies, p_now);
    v_first := v_known[1];
    v_one := p_entries[1];
    IF cardinality(p_entries) = 1 AND NOT v_first.has_line AND v_first.tag < l.horizon
        AND (l.horizon < c_end OR p_room > 0) AND v_first.room IS NULL AND p_queue_room IS NULL
    THEN                                    -- a lone message: starting the long statement below would delay it
        INSERT INTO ready (lane, tag, id, generation, rank, at, cost, is_limited, channel)
        VALUES (l.name, v_first.tag, v_one.id, v_one.generation, v_one.rank, v_one.at, v_one.cost, FALSE,
            v_one.channel);
        put := 1;
        issued := v_first.tag;
        is_blocked := FALSE;
        IF v_first.is_remembered OR l.horizon < c_end OR v_one.cost > 1 THEN
            PERFORM recent_write(l, v_known, l.horizon < c_end OR v_one.cost > 1);
        END IF;
        RETURN;
    END IF;
    IF NOT EXISTS (SELECT FROM unnest(v_known) k WHERE NOT k.has_line) THEN -- mostly so where there is a backlog
        put := 0;
        is_blocked := EXISTS (SELECT FROM unnest(v_known) k WHERE k.room IS NOT NULL);
        PERFORM line_add(l.name, ARRAY(
            SELECT ROW(l.name, k.tag, e.id, e.generation, e.rank, e.at, e.cost, NULL, e.channel)::ready
            FROM unnest(p_entries) e JOIN unnest(v_known) k ON k.channel = e.channel), FALSE);
        RETURN;
    END IF;
    WITH new AS MATERIALIZED (
        SELECT e.*, k.has_line, k.room, k.tag + SUM(s.step) OVER line_order - s.step AS tag,
            COUNT(*) OVER line_order AS nth
        FROM unnest(p_entries) e JOIN unnest(v_known) k ON k.channel = e.channel
        CROSS JOIN LATERAL (SELECT tag_step(e.cost, k.step, e.id) AS step) s
        WINDOW line_order AS (PARTITION BY e.channel ORDER BY e.rank, e.at, e.id ROWS UNBOUNDED PRECEDING)),
    placed AS MATERIALIZED (
        SELECT x.*, x.may AND (l.horizon < c_end OR x.rank_in_all <= p_room)
            AND COALESCE(x.rank_in_all <= p_queue_room, TRUE) AS is_direct
        FROM (
            SELECT y.*, ROW_NUMBER() OVER (ORDER BY y.may DESC, y.tag, y.id) AS rank_in_all
            FROM (
                SELECT n.*, NOT n.has_line AND n.tag < l.horizon AND COALESCE(n.nth <= n.room, TRUE) AS may
                    FROM new n) y) x),
    to_ready AS (
        INSERT INTO ready (lane, tag, id, generation, rank, at, cost, is_limited, channel)
        SELECT l.name, p.tag, p.id, p.generation, p.rank, p.at, p.cost,
            p_queue_room IS NOT NULL OR room_is_short(p.room, p.nth), p.channel
        FROM placed p WHERE p.is_direct ORDER BY p.tag, p.id)
    SELECT COUNT(*) FILTER (WHERE p.is_direct),
        MAX(p.tag) FILTER (WHERE p.is_direct), COALESCE(BOOL_OR(NOT p.is_direct
            AND p.room IS NOT NULL), FALSE), MAX(p.cost) > 1,
        array_agg(ROW(l.name, p.tag, p.id, p.generation, p.rank, p.at, p.cost,
            NULL, p.channel)::ready) FILTER (WHERE NOT p.is_direct),
        array_agg(ROW(l.name, p.tag, p.id, p.generation, p.rank, p.at, p.cost, NULL, p.channel)::ready)
            FILTER (WHERE p.is_direct AND (p.room IS NOT NULL OR p_queue_room IS NOT NULL))
    INTO put, issued, is_blocked, v_has_costs, v_line, v_limited FROM placed p;
    v_is_kept := l.horizon < c_end OR v_has_costs;
    IF put > 0 AND (v_is_kept OR EXISTS (SELECT FROM unnest(v_known) k WHERE k.is_remembered)) THEN
        PERFORM recent_write(l, v_known, v_is_kept);
    END IF;
    IF v_line IS NOT NULL THEN
        PERFORM line_add(l.name, v_line, FALSE);
    END IF;
    IF v_limited IS NOT NULL THEN
        PERFORM slots_take(v_limited, p_now);
    END IF;
END $$;
