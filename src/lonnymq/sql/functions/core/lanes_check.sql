-- Refuse lanes of a batch that are not valid names, that would give the queue too many lanes, or that the login may not
-- add. NULL elements are the default lane.
CREATE OR REPLACE FUNCTION lanes_check (p_lanes TEXT[])
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_known TEXT[] := ARRAY(
        SELECT l.name FROM (SELECT * FROM tick ORDER BY id DESC LIMIT 1) t CROSS JOIN unnest(t.lanes) l);
    v_new TEXT[] := ARRAY(SELECT DISTINCT u FROM unnest(p_lanes) u WHERE u <> ALL (v_known));
BEGIN
    PERFORM lane_check(n.name, format(' (message %s of %s)', u.ord, cardinality(p_lanes)))
    FROM unnest(v_new) n (name)
    CROSS JOIN LATERAL (
        SELECT MIN(u.ord) AS ord FROM unnest(p_lanes) WITH ORDINALITY u (lane, ord) WHERE u.lane = n.name) u;
    IF cardinality(v_known) + cardinality(v_new) > 500 AND v_new <> '{}' THEN
        PERFORM refuse('LM010', format('the queue has %s lanes, and %s more would exceed 500', cardinality(v_known),
            cardinality(v_new)), 'Use existing lanes. Lanes are for classes of work; use channels for tenants.');
    END IF;
END $$;
