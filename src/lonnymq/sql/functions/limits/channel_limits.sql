-- The limits that apply to a channel: its own, or what it inherits from the queue; NULL: no limit. '' is the queue
-- itself, which has a max_concurrency only. is_own: it has a limit of its own that needs slots. inherited: which limits
-- come from the queue. It is inlined into the queries that use it.
CREATE OR REPLACE FUNCTION channel_limits (p_channel TEXT)
RETURNS TABLE (
    max_concurrency INT, interval_us BIGINT, burst INT, max_size INT, paused BOOLEAN, weight NUMERIC, is_own BOOLEAN,
    inherited TEXT[])
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN p_channel = '' THEN q.max_concurrency
            ELSE NULLIF(COALESCE(c.max_concurrency, q.channel_max_concurrency), 0) END,
        CASE WHEN p_channel <> '' THEN NULLIF(COALESCE(c.release_interval_us, q.channel_release_interval_us), 0) END,
        COALESCE(c.burst, q.channel_burst, 1),
        CASE WHEN p_channel <> '' THEN NULLIF(COALESCE(c.max_size, q.channel_max_size), 0) END,
        COALESCE(c.paused, FALSE), COALESCE(c.weight, 1),
        p_channel = '' OR COALESCE(c.max_concurrency > 0, FALSE) OR COALESCE(c.release_interval_us > 0, FALSE),
        array_remove(ARRAY[
            CASE WHEN c.max_concurrency IS NULL AND q.channel_max_concurrency IS NOT NULL THEN 'max_concurrency' END,
            CASE WHEN c.release_interval_us IS NULL AND q.channel_release_interval_us IS NOT NULL
                THEN 'release_interval_us' END,
            CASE WHEN c.burst IS NULL AND q.channel_burst IS NOT NULL THEN 'burst' END,
            CASE WHEN c.max_size IS NULL AND q.channel_max_size IS NOT NULL THEN 'max_size' END], NULL)
    FROM queue q LEFT JOIN LATERAL (SELECT * FROM channel c WHERE c.name = p_channel OFFSET 0) c ON TRUE
$$;
