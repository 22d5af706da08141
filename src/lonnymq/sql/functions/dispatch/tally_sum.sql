-- Sum up what was served since p_from; not now if somebody, who deletes a channel, holds a row. Returns up to where
-- it is summed up.
CREATE OR REPLACE FUNCTION tally_sum (p_from BIGINT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    v_rows served_by[];
    v_names TEXT[];
BEGIN
    v_rows := ARRAY(SELECT b FROM served_by b WHERE b.id > p_from FOR UPDATE SKIP LOCKED);
    v_names := ARRAY(SELECT DISTINCT s.channel FROM unnest(v_rows) b CROSS JOIN unnest(b.shares) s);
    IF EXISTS (SELECT FROM served_by b WHERE b.id > p_from AND b.id <> ALL (ARRAY(SELECT r.id FROM unnest(v_rows) r)))
        OR EXISTS (
            SELECT FROM tally y WHERE y.channel = ANY (v_names) AND y.channel <> ALL (ARRAY(
                SELECT y.channel FROM tally y WHERE y.channel = ANY (v_names) FOR UPDATE SKIP LOCKED)))
    THEN
        RETURN p_from;
    END IF;
    DELETE FROM served_by b WHERE b.id > p_from;
    INSERT INTO tally AS y (channel, served, served_at)
    SELECT s.channel, SUM(s.n), MAX(s.at) FROM unnest(v_rows) b CROSS JOIN unnest(b.shares) s GROUP BY s.channel
    ON CONFLICT (channel) DO UPDATE
    SET served = y.served + excluded.served, served_at = GREATEST(y.served_at, excluded.served_at);
    RETURN COALESCE((SELECT MAX(r.id) FROM unnest(v_rows) r), p_from);
END $$;
