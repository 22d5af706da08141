-- The times of messages, with delays added to p_now. Refuses a delay that is out of range, or that is given together
-- with a time.
CREATE OR REPLACE FUNCTION delays_to_times (p_ats BIGINT[], p_delays_ms BIGINT[], p_now BIGINT)
RETURNS BIGINT[] LANGUAGE plpgsql AS $$
BEGIN
    PERFORM delay_check(u.delay_ms, u.at, format(' (message %s of %s)', u.ord, cardinality(p_delays_ms)))
    FROM unnest(p_ats, p_delays_ms) WITH ORDINALITY u (at, delay_ms, ord) WHERE u.delay_ms IS NOT NULL;
    RETURN ARRAY(
        SELECT COALESCE(u.at, p_now + u.delay_ms)
        FROM unnest(p_ats, p_delays_ms) WITH ORDINALITY u (at, delay_ms, ord) ORDER BY u.ord);
END $$;
