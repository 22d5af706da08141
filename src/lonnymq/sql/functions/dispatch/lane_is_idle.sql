-- Whether nobody seems to serve a lane: what is next in it has been so for a second. For a second out of ten it is
-- tried again.
CREATE OR REPLACE FUNCTION lane_is_idle (l lane_state, p_now BIGINT)
RETURNS BOOLEAN LANGUAGE sql IMMUTABLE
RETURN COALESCE((p_now - l.idle_at) % 10000 >= 1000, FALSE);
