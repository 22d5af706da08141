-- A lane without lines and without entries, whose tags go on from p_issued.
CREATE OR REPLACE FUNCTION lane_begin (p_name TEXT, p_issued BIGINT, p_target INT DEFAULT 250)
RETURNS lane_state LANGUAGE sql IMMUTABLE
RETURN ROW(p_name, p_issued, p_issued, 9223372036854775807, p_issued, p_target, 0, 0, NULL, NULL, NULL)::lane_state;
