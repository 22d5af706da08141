-- Whether others may soon wait for the slot of the nth message, of a channel that had room for p_room: then the call
-- that finishes the message appends a notice. With more room none is needed: if the room is used up nevertheless, free
-- slots are found within a second.
CREATE OR REPLACE FUNCTION room_is_short (p_room INT, p_nth BIGINT)
RETURNS BOOLEAN LANGUAGE sql IMMUTABLE
RETURN COALESCE(p_room - p_nth < 100 OR 2 * p_nth >= p_room, FALSE);
