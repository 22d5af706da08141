-- The state of a lane without lines and entries, whose tags continue after p_issued.
CREATE OR REPLACE FUNCTION lane_new (p_name TEXT, p_issued BIGINT, p_target INT DEFAULT 250)
RETURNS lane_state LANGUAGE sql IMMUTABLE
RETURN ROW(p_name, p_issued, p_issued, 9223372036854775807, p_issued, p_target, 0, 0, NULL, NULL, NULL)::lane_state;
