-- How far above the horizon ready is served, where a dequeue takes p_per_call messages: as far as a quarter of them
-- reach, at weight 1. So a refill takes several messages from each line that it looks at. A channel may then be ahead
-- of another one by that much. Where dequeues take a few messages each, the order is exact.
CREATE OR REPLACE FUNCTION lane_slack (p_per_call BIGINT)
RETURNS BIGINT LANGUAGE sql IMMUTABLE STRICT
RETURN 1000 * (GREATEST(1, LEAST(64, p_per_call / 4)) - 1);
