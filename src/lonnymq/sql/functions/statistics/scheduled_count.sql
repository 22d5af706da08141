-- How many messages are scheduled: exact up to 10,000, estimated from a sample of about 64 pages above.
CREATE OR REPLACE FUNCTION scheduled_count (p_now BIGINT)
RETURNS BIGINT LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_n BIGINT := (SELECT COUNT(*) FROM (SELECT FROM scheduled s WHERE s.at > p_now ORDER BY s.at, s.id LIMIT 10000) x);
    v_percent REAL := sample_percent('scheduled');
BEGIN
    IF v_n < 10000 THEN
        RETURN v_n;
    END IF;
    RETURN GREATEST(v_n,
        (SELECT COUNT(*) * 100 / v_percent FROM scheduled s TABLESAMPLE SYSTEM (v_percent) WHERE s.at > p_now));
END $$;
