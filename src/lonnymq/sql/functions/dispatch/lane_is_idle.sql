-- Whether nobody seems to serve the nth of so many lanes: what is next in it has been so for a second. Each second
-- another lane is taken for one that is served: who waits for its messages gets some then.
CREATE OR REPLACE FUNCTION lane_is_idle (l lane_state, p_nth INT, p_count INT, p_now BIGINT)
RETURNS BOOLEAN LANGUAGE sql IMMUTABLE
RETURN COALESCE(p_now - l.idle_at >= 1000, FALSE) AND (p_now / 1000) % p_count <> p_nth - 1;
