-- The names of the p_limit channels with the most waiting messages. Messages in lines and in ready are counted exactly,
-- scheduled ones are estimated from a sample. The candidates come from a sample, too: about 64 pages each of line and
-- scheduled, which is everything while the tables are that small, and the first 10,000 entries of ready.
CREATE OR REPLACE FUNCTION channel_largest (p_limit INT)
RETURNS TEXT[] LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_lanes lane_state[] := (SELECT t.lanes FROM tick t ORDER BY t.id DESC LIMIT 1);
    v_line REAL := sample_percent('line');
    v_scheduled REAL := sample_percent('scheduled');
BEGIN
    RETURN ARRAY(
        SELECT x.channel
        FROM (
            SELECT s.channel, b.n
            FROM (
                SELECT i.channel FROM line i TABLESAMPLE SYSTEM (v_line)
                GROUP BY i.channel ORDER BY COUNT(*) DESC LIMIT 2 * p_limit) s
            CROSS JOIN unnest(v_lanes) l
            CROSS JOIN LATERAL backlog_live(s.channel, l.name) b
            UNION ALL
            SELECT r.channel, 1 FROM unnest(v_lanes) l
            CROSS JOIN LATERAL (
                SELECT r.channel FROM ready r WHERE r.lane = l.name AND r.tag >= l.floor
                ORDER BY r.tag, r.id LIMIT 10000) r
            UNION ALL
            SELECT s.channel, COUNT(*) * 100 / v_scheduled FROM scheduled s TABLESAMPLE SYSTEM (v_scheduled)
            GROUP BY s.channel) x
        GROUP BY x.channel ORDER BY SUM(x.n) DESC, x.channel LIMIT p_limit);
END $$;
