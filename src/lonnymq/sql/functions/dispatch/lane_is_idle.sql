-- Whether nobody seems to serve a lane: nothing was taken from it, and nobody asked for it in vain, for five seconds.
CREATE OR REPLACE FUNCTION lane_is_idle (l lane_state, p_now BIGINT)
RETURNS BOOLEAN LANGUAGE sql IMMUTABLE
RETURN COALESCE(p_now - l.served_at >= 5000, TRUE);
