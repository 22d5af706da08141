-- Whether others may soon wait for the nth message that is put into ready of a channel that has room for p_room: then
-- who finishes it gives notice. Where there is plenty of room, nobody has to: when the room is used up all the same,
-- what came free is looked for within a second.
CREATE OR REPLACE FUNCTION room_is_short (p_room INT, p_nth BIGINT)
RETURNS BOOLEAN LANGUAGE sql IMMUTABLE
RETURN COALESCE(p_room - p_nth < 100 OR 2 * p_nth >= p_room, FALSE);
