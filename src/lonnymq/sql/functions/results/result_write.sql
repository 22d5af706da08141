-- Keep the results of messages that finish in this transaction, and notify those who wait for them when it commits.
-- In p_results, until_at is how long a result is kept, and finished_at is not set.
CREATE OR REPLACE FUNCTION result_write (p_results result[], p_now BIGINT)
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO result (id, until_at, finished_at, attempts, outcome, channel, error, content_type, content)
    SELECT r.id, p_now + r.until_at, p_now, r.attempts, r.outcome, r.channel, r.error, r.content_type, r.content
    FROM unnest(p_results) r;
    IF (SELECT q.notify FROM queue q) THEN  -- a notification has less than 8,000 bytes
        PERFORM pg_notify(result_channel(), string_agg(result_key(r.id, s.secret), ','))
        FROM (SELECT r.id, (ROW_NUMBER() OVER () - 1) / 800 AS part FROM unnest(p_results) r) r
        CROSS JOIN result_secret s GROUP BY r.part;
    END IF;
END $$;
