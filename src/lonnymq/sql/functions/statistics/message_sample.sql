-- How the stored messages spread over the channels, from a sample of about 64 pages of the table: all of it, while it is no larger.
CREATE OR REPLACE FUNCTION message_sample ()
RETURNS TABLE (channel TEXT, waiting BIGINT, scheduled BIGINT, oldest_at BIGINT) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    v_pages BIGINT := pg_relation_size('message') / current_setting('block_size')::INT;
    v_percent REAL := CASE WHEN v_pages <= 64 THEN 100 ELSE 6400.0 / v_pages END;
    v_now BIGINT := clock_ms();
BEGIN
    RETURN QUERY
    SELECT m.channel, COUNT(*) FILTER (WHERE NOT m.leased), COUNT(*) FILTER (WHERE NOT m.leased AND m.dequeue_at > v_now),
        MIN(GREATEST(m.dequeue_at, m.created_at)) FILTER (WHERE NOT m.leased AND m.dequeue_at <= v_now)
    FROM message m TABLESAMPLE SYSTEM (v_percent) GROUP BY m.channel;
END $$;
