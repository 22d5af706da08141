-- How many due messages a channel has in its lines and in ready, and since when the oldest is due (or exists, if it was
-- created after its time). The oldest is looked for among the first messages of each priority and behind the urgent
-- ones, so that these do not hide it.
CREATE OR REPLACE FUNCTION channel_due (p_channel TEXT, p_lanes lane_state[], OUT n BIGINT, OUT oldest_at BIGINT)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    c_start CONSTANT BIGINT := -9223372036854775808;
    v_last SMALLINT;                        -- the highest rank
    v_rank SMALLINT := -32768;
    v_at BIGINT := c_start;
    e entry;
BEGIN
    SELECT COALESCE(SUM(b.n), 0) + COALESCE(SUM(r.n), 0),
        GREATEST(MAX((b.ranges[cardinality(b.ranges)]).hi_rank), MAX(r.rank))
    INTO n, v_last
    FROM unnest(p_lanes) l
    LEFT JOIN LATERAL backlog_live(p_channel, l.name) b ON TRUE
    CROSS JOIN LATERAL (
        SELECT COUNT(*) AS n, MAX(r.rank) AS rank FROM ready r
        WHERE r.channel = p_channel AND r.lane || '' = l.name AND r.tag >= l.floor) r;
    FOR i IN 1 .. 20 LOOP
        EXIT WHEN v_rank > v_last OR v_last IS NULL;
        SELECT * INTO e FROM list_due(p_channel, p_lanes, v_rank, v_at, c_start, 1);
        EXIT WHEN e.id IS NULL;
        oldest_at := LEAST(oldest_at, (SELECT GREATEST(m.dequeue_at, m.created_at) FROM message m WHERE m.id = e.id));
        v_rank := CASE WHEN e.at <= 0 THEN e.rank ELSE e.rank + 1 END;
        v_at := CASE WHEN e.at <= 0 THEN 1 ELSE c_start END;
    END LOOP;
END $$;
