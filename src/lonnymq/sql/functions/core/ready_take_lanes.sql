-- Part of a dequeue from several lanes: take an equal part from each, in random order; if one lane has less than its
-- part, the others make up for it. p_names, p_channels: which lanes and channels; NULL: all.
CREATE OR REPLACE FUNCTION ready_take_lanes (p_lanes lane_state[], p_names TEXT[], p_changed TEXT[], p_limit INT,
    p_channels TEXT[])
RETURNS ready[] LANGUAGE plpgsql AS $$
DECLARE
    v_lanes lane_state[] := ARRAY(
        SELECT k FROM unnest(p_lanes) k WHERE p_names IS NULL OR k.name = ANY (p_names) ORDER BY random());
    v_more lane_state[];                    -- lanes that may have more
    v_taken ready[] := '{}';
    v_got ready[];
    l lane_state;
    v_share INT;
BEGIN
    WHILE v_lanes <> '{}' AND cardinality(v_taken) < p_limit LOOP
        v_share := (p_limit - cardinality(v_taken) - 1) / cardinality(v_lanes) + 1;
        v_more := '{}';
        FOREACH l IN ARRAY v_lanes LOOP
            EXIT WHEN cardinality(v_taken) >= p_limit;
            IF p_channels IS NULL THEN
                v_got := ready_take(l, p_changed, LEAST(v_share, p_limit - cardinality(v_taken)));
            ELSE
                v_got := ready_take_channels(l, p_channels, p_changed, LEAST(v_share, p_limit - cardinality(v_taken)));
            END IF;
            v_taken := v_taken || v_got;
            IF cardinality(v_got) = v_share THEN
                v_more := v_more || l;
            END IF;
        END LOOP;
        v_lanes := v_more;
    END LOOP;
    RETURN NULLIF(v_taken, '{}');
END $$;
