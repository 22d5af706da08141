-- Whether a text can name a channel or a lane, or be a dedupe key: 1 to 255 bytes. NULL for NULL.
CREATE OR REPLACE FUNCTION name_is_valid (p_name TEXT)
RETURNS BOOLEAN LANGUAGE sql IMMUTABLE
RETURN octet_length(p_name) BETWEEN 1 AND 255;
