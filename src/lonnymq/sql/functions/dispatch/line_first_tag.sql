-- The lowest tag of a line that may release, which is the lane's horizon. NULL: there is no such line.
CREATE OR REPLACE FUNCTION line_first_tag (l lane_state)
RETURNS BIGINT LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT b.tag FROM backlog b WHERE b.is_open AND b.lane = l.name AND b.tag >= l.v
        ORDER BY b.lane, b.tag, b.turn LIMIT 1);
END $$;
