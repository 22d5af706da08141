-- Whether a double can hold a time exactly, so that clients in every language can read it back. NULL for NULL.
CREATE OR REPLACE FUNCTION time_is_valid (p_at BIGINT)
RETURNS BOOLEAN LANGUAGE sql IMMUTABLE
RETURN p_at BETWEEN -9007199254740992 AND 9007199254740992;
