-- Whether a lane seems to have no consumers: for five seconds nothing was taken from it, and no dequeue asked for it.
CREATE OR REPLACE FUNCTION lane_is_idle (l lane_state, p_now BIGINT)
RETURNS BOOLEAN LANGUAGE sql IMMUTABLE
RETURN COALESCE(p_now - l.served_at >= 5000, TRUE);
