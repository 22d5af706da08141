-- Place due messages of a lane. A message goes straight into ready if its channel has no line and may release, and its
-- tag is below the horizon, which is the first tag of all lines. Otherwise it goes into its channel's line. p_room: how
-- many more entries ready should have if there are no lines; p_queue_room: how many the limit of the queue allows.
-- Returns how many messages were put into ready, their highest tag, and whether limits kept some out.
CREATE OR REPLACE FUNCTION lane_place (
    l lane_state, p_entries entry[], p_room INT, p_queue_room INT, p_has_policies BOOLEAN, p_now BIGINT,
    OUT put INT, OUT issued BIGINT, OUT is_blocked BOOLEAN)
LANGUAGE plpgsql SET enable_hashjoin TO on AS $$ -- for arrays; tables are read by LATERAL
DECLARE
    c_end CONSTANT BIGINT := 9223372036854775807;
    v_channels channel_state[];
    v_line ready[];                         -- what goes into the lines
    v_limited ready[];                      -- what takes slots
    v_has_costs BOOLEAN;
    v_is_kept BOOLEAN;                      -- the next tags of channels must be remembered
    v_first channel_state;
    v_one entry;
BEGIN
    v_channels := channel_states(l, p_entries, p_has_policies, p_now);
    v_first := v_channels[1];
    v_one := p_entries[1];
    IF cardinality(p_entries) = 1 AND NOT v_first.has_line AND v_first.tag < l.horizon
        AND (l.horizon < c_end OR p_room > 0) AND v_first.room IS NULL AND p_queue_room IS NULL
    THEN                                    -- a single message: starting the long statement below takes longer
        INSERT INTO ready (lane, tag, id, generation, rank, at, cost, is_limited, channel)
        VALUES (l.name, v_first.tag, v_one.id, v_one.generation, v_one.rank, v_one.at, v_one.cost, FALSE,
            v_one.channel);
        put := 1;
        issued := v_first.tag;
        is_blocked := FALSE;
        IF v_first.is_remembered OR l.horizon < c_end OR v_one.cost > 1 THEN
            PERFORM recent_tag_write(l, v_channels, l.horizon < c_end OR v_one.cost > 1);
        END IF;
        RETURN;
    END IF;
    IF NOT EXISTS (SELECT FROM unnest(v_channels) k WHERE NOT k.has_line) THEN -- usual if there is a backlog
        put := 0;
        is_blocked := EXISTS (SELECT FROM unnest(v_channels) k WHERE k.room IS NOT NULL);
        PERFORM line_add(l.name, ARRAY(
            SELECT ROW(l.name, k.tag, e.id, e.generation, e.rank, e.at, e.cost, NULL, e.channel)::ready
            FROM unnest(p_entries) e JOIN unnest(v_channels) k ON k.channel = e.channel), FALSE);
        RETURN;
    END IF;
    WITH new AS MATERIALIZED (              -- with the tag that each would get
        SELECT e.*, k.has_line, k.room, k.tag + SUM(s.step) OVER line_order - s.step AS tag,
            COUNT(*) OVER line_order AS nth
        FROM unnest(p_entries) e JOIN unnest(v_channels) k ON k.channel = e.channel
        CROSS JOIN LATERAL (SELECT tag_step(e.cost, k.step, e.id) AS step) s
        WINDOW line_order AS (PARTITION BY e.channel ORDER BY e.rank, e.at, e.id ROWS UNBOUNDED PRECEDING)),
    placed AS MATERIALIZED (                -- is_direct: it goes into ready
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
    IF put > 0 AND (v_is_kept OR EXISTS (SELECT FROM unnest(v_channels) k WHERE k.is_remembered)) THEN
        PERFORM recent_tag_write(l, v_channels, v_is_kept);
    END IF;
    IF v_line IS NOT NULL THEN
        PERFORM line_add(l.name, v_line, FALSE);
    END IF;
    IF v_limited IS NOT NULL THEN
        PERFORM slots_add(v_limited, p_now);
    END IF;
END $$;
