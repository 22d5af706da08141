-- The history by task (the header task; NULL: none), of a channel and since a time if given: how many messages
-- finished, and how; how long they waited and how long their last attempt took, as percentiles (percentile_cont), see
-- history_newest; and the mean of their attempts. The largest task comes first. Reads at most the p_rows newest rows;
-- has_more is TRUE in every row if there are older ones in that time, and from_at is the time from which on the rows
-- were read. A login that is bound to channels must name one of them. Locks nothing.
CREATE OR REPLACE FUNCTION history_summary (
    p_channel TEXT DEFAULT NULL, p_since BIGINT DEFAULT NULL, p_rows INT DEFAULT 10000)
RETURNS TABLE (
    task TEXT, messages BIGINT, completed BIGINT, dead BIGINT, cancelled BIGINT, attempts_mean DOUBLE PRECISION,
    waited_p50_ms DOUBLE PRECISION, waited_p95_ms DOUBLE PRECISION, waited_p99_ms DOUBLE PRECISION,
    worked_p50_ms DOUBLE PRECISION, worked_p95_ms DOUBLE PRECISION, worked_p99_ms DOUBLE PRECISION,
    has_more BOOLEAN, from_at BIGINT)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    c_shares CONSTANT DOUBLE PRECISION[] := '{0.5,0.95,0.99}';
BEGIN
    PERFORM limit_check(p_rows, 100000);
    PERFORM time_check(p_since);
    PERFORM list_check(p_channel);
    RETURN QUERY
    WITH newest AS MATERIALIZED (
        SELECT n.* FROM history_newest(p_channel, p_since, p_rows + 1)
            WITH ORDINALITY n (finished_at, task, outcome, attempts, waited_ms, worked_ms, ord)
        WHERE p_since IS NULL OR n.finished_at >= p_since),
    bounds AS MATERIALIZED (
        SELECT MAX(n.ord) > p_rows AS has_more, MIN(n.finished_at) FILTER (WHERE n.ord <= p_rows) AS first_at
        FROM newest n)
    SELECT g.task, g.messages, g.completed, g.dead, g.cancelled, g.attempts_mean,
        g.waited[1], g.waited[2], g.waited[3], g.worked[1], g.worked[2], g.worked[3],
        b.has_more, CASE WHEN b.has_more THEN b.first_at ELSE COALESCE(p_since, b.first_at) END
    FROM (
        SELECT n.task, COUNT(*) AS messages, COUNT(*) FILTER (WHERE n.outcome = 'completed') AS completed,
            COUNT(*) FILTER (WHERE n.outcome = 'dead') AS dead,
            COUNT(*) FILTER (WHERE n.outcome = 'cancelled') AS cancelled,
            AVG(n.attempts)::DOUBLE PRECISION AS attempts_mean,
            percentile_cont(c_shares) WITHIN GROUP (ORDER BY n.waited_ms) AS waited,
            percentile_cont(c_shares) WITHIN GROUP (ORDER BY n.worked_ms) AS worked
        FROM newest n WHERE n.ord <= p_rows GROUP BY n.task) g
    CROSS JOIN bounds b
    ORDER BY g.messages DESC, g.task COLLATE "C";
END $$;
