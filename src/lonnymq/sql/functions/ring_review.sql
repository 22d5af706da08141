-- Part of a fold after the clock was set back: the next p_limit channels to be looked at anew, as wakes, and where to go on; NULL: done.
CREATE OR REPLACE FUNCTION ring_review (p_tick tick, p_limit INT, OUT wakes wake[], OUT review_at BIGINT, OUT review_turn BIGINT)
LANGUAGE plpgsql AS $$
DECLARE
    v_last BIGINT[];
BEGIN
    SELECT array_agg(ROW(NULL, NULL, NULL, NULL, NULL, NULL, r.channel, 0)::wake), MAX(ARRAY[r.due_at, r.turn]) INTO wakes, v_last
    FROM (
        SELECT channel, due_at, turn FROM ring
        WHERE due_at IS NOT NULL AND (due_at, turn) > (p_tick.review_at, p_tick.review_turn)
        ORDER BY due_at, turn LIMIT p_limit) r;
    IF cardinality(wakes) = p_limit THEN
        review_at := v_last[1];
        review_turn := v_last[2];
    END IF;
END $$;
