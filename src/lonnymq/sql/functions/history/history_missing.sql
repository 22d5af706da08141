-- The days (UTC, as their first millisecond), from today to a week ahead, that need a partition of the history and can
-- get one.
CREATE OR REPLACE FUNCTION history_missing (p_now BIGINT)
RETURNS SETOF BIGINT LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY
    SELECT d.from_at FROM (SELECT (p_now / 86400000 + n) * 86400000 AS from_at FROM generate_series(0, 7) n) d
    WHERE to_regclass(quote_ident(history_partition(d.from_at))) IS NULL
        AND NOT EXISTS (SELECT FROM finished_other f WHERE f.finished_at >= d.from_at
            AND f.finished_at < d.from_at + 86400000);
END $$;
