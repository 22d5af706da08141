-- Dead letters, of a channel if given, grouped by what went wrong: by task and pattern of the error, and with
-- p_by_channel also by channel. The largest groups come first, up to p_limit. Reads at most the p_scan dead letters
-- with the highest ids; has_more is TRUE in every row if there are others, which are not counted. example_id is the
-- highest id of the group. Locks nothing.
CREATE OR REPLACE FUNCTION dead_groups (
    p_channel TEXT DEFAULT NULL, p_by_channel BOOLEAN DEFAULT FALSE, p_limit INT DEFAULT 100, p_scan INT DEFAULT 10000)
RETURNS TABLE (
    fingerprint TEXT, pattern TEXT, task TEXT, channel TEXT, messages BIGINT, channels BIGINT, first_dead_at BIGINT,
    last_dead_at BIGINT, example_id BIGINT, has_more BOOLEAN)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    v_ids BIGINT[];
BEGIN
    PERFORM limit_check(p_limit, 10000);
    PERFORM limit_check(p_scan, 100000);
    PERFORM list_check(p_channel);
    IF p_channel IS NULL THEN
        v_ids := ARRAY(SELECT d.id FROM dead d ORDER BY d.id DESC LIMIT p_scan + 1);
    ELSE
        -- Compared as pairs, as in dead_find.
        v_ids := ARRAY(
            SELECT d.id FROM dead d
            WHERE (d.channel, d.id) > (p_channel, 0) AND (d.channel, d.id) <= (p_channel, 9223372036854775807)
            ORDER BY d.channel DESC, d.id DESC LIMIT p_scan + 1);
    END IF;
    RETURN QUERY
    SELECT dead_fingerprint(g.task, g.pattern), g.pattern, g.task, g.channel, g.messages, g.channels, g.first_dead_at,
        g.last_dead_at, g.example_id, cardinality(v_ids) > p_scan
    FROM (
        SELECT x.pattern, x.task, CASE WHEN p_by_channel THEN x.channel END AS channel, COUNT(*) AS messages,
            COUNT(DISTINCT x.channel) AS channels, MIN(x.dead_at) AS first_dead_at, MAX(x.dead_at) AS last_dead_at,
            MAX(x.id) AS example_id
        FROM (
            SELECT d.id, d.channel, d.dead_at, d.headers ->> 'task' AS task, error_pattern(d.error) AS pattern
            FROM unnest(v_ids[:p_scan]) u (id)
            CROSS JOIN LATERAL (SELECT * FROM dead d WHERE d.id = u.id OFFSET 0) d) x
        GROUP BY 1, 2, 3
        ORDER BY messages DESC, example_id DESC LIMIT p_limit) g
    ORDER BY g.messages DESC, g.example_id DESC;
END $$;
