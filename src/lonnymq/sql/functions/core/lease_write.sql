-- Part of a dequeue: the lease of what it took, in rows of up to 100 messages, and the notice of it.
CREATE OR REPLACE FUNCTION lease_write (
    p_taken ready[], p_token UUID, p_end_at BIGINT, p_now BIGINT, p_consumer TEXT, p_wanted INT)
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    WITH leased AS (
        INSERT INTO lease (token, last_id, end_at, dequeued_at, is_limited, consumer, stubs)
        SELECT p_token, MAX(x.id), p_end_at, p_now, BOOL_OR(x.is_limited), p_consumer,
            array_agg(ROW(x.id, x.generation)::stub ORDER BY x.id)
        FROM (SELECT r.*, (ROW_NUMBER() OVER (ORDER BY r.id) - 1) / 100 AS part FROM unnest(p_taken) r) x GROUP BY x.part)
    INSERT INTO notice (lease_end_at, at, n, wanted, taken)
    SELECT p_end_at, p_now, -cardinality(p_taken), p_wanted, array_agg(ROW(x.channel, x.n, p_now)::share)
    FROM (SELECT r.channel, COUNT(*) AS n FROM unnest(p_taken) r GROUP BY r.channel) x;
END $$;
