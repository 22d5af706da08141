-- Part of dispatch: lanes that a dequeue asked for, and found empty, have a consumer. Returns the new states of the
-- lanes.
CREATE OR REPLACE FUNCTION lanes_mark_served (p_lanes lane_state[], p_notices notice[], p_now BIGINT)
RETURNS lane_state[] LANGUAGE plpgsql AS $$
DECLARE
    v_asked TEXT[] := ARRAY(SELECT DISTINCT a FROM unnest(p_notices) w CROSS JOIN unnest(w.asked) a);
BEGIN
    FOR i IN 1 .. cardinality(p_lanes) LOOP
        IF (p_lanes[i]).name = ANY (v_asked) THEN
            p_lanes[i].served_at := p_now;
        END IF;
    END LOOP;
    RETURN p_lanes;
END $$;
