-- Part of a dequeue from several lanes: from each its share, beginning with one by chance, and then the rest from
-- those that have more. p_names: which lanes; NULL: all.
CREATE OR REPLACE FUNCTION ready_take_lanes (p_lanes lane_state[], p_names TEXT[], p_limit INT)
RETURNS ready[] LANGUAGE plpgsql AS $$
DECLARE
    v_lanes lane_state[];
    v_taken ready[] := '{}';
    l lane_state;
    v_share INT;
BEGIN
    SELECT array_agg(x.k ORDER BY x.nth < x.first, x.nth) INTO v_lanes
    FROM (
        SELECT k, ROW_NUMBER() OVER () AS nth, s.first FROM unnest(p_lanes) k
        CROSS JOIN (SELECT 1 + floor(random() * cardinality(p_lanes)) AS first) s
        WHERE p_names IS NULL OR k.name = ANY (p_names)) x;
    FOR i IN 1 .. 2 LOOP
        v_share := CASE WHEN i = 1 THEN (p_limit + cardinality(v_lanes) - 1) / cardinality(v_lanes) ELSE p_limit END;
        FOREACH l IN ARRAY COALESCE(v_lanes, '{}') LOOP
            EXIT WHEN cardinality(v_taken) >= p_limit;
            v_taken := v_taken || ready_take(l, LEAST(v_share, p_limit - cardinality(v_taken)));
        END LOOP;
    END LOOP;
    RETURN NULLIF(v_taken, '{}');
END $$;
