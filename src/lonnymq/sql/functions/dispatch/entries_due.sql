-- Take up to p_limit due messages out of scheduled, in the order of time. Also returns up to which time scheduled is
-- read.
CREATE OR REPLACE FUNCTION entries_due (p_due_to BIGINT, p_now BIGINT, p_limit INT, OUT entries entry[],
    OUT due_to BIGINT)
LANGUAGE plpgsql AS $$
DECLARE
    v_rows scheduled[];
BEGIN
    SELECT array_agg(s.s) INTO v_rows
    FROM (SELECT s FROM scheduled s WHERE s.at > p_due_to AND s.at <= p_now ORDER BY s.at, s.id LIMIT p_limit) s;
    -- If p_limit was reached, rows with the same time may be left: the next call reads that time again.
    due_to := CASE WHEN cardinality(v_rows) = p_limit THEN (v_rows[p_limit]).at - 1 ELSE GREATEST(p_due_to, p_now) END;
    IF v_rows IS NOT NULL THEN
        entries := scheduled_take(v_rows, p_now);
    END IF;
END $$;
