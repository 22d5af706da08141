-- Add what was served since p_from to tally, about 4,000 shares per call, and delete it from served_by. Does nothing if
-- channel_delete has locked one of these rows. Returns the id up to which served_by has been added.
CREATE OR REPLACE FUNCTION tally_update (p_from BIGINT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    v_to BIGINT := (
        SELECT MAX(x.id) FROM (
            SELECT b.id, SUM(cardinality(b.shares)) OVER (ORDER BY b.id) AS n
            FROM (SELECT * FROM served_by b WHERE b.id > p_from ORDER BY b.id LIMIT 100) b) x
        WHERE x.n <= 4000);
    v_rows served_by[];
    v_names TEXT[];
BEGIN
    v_rows := ARRAY(SELECT b FROM served_by b WHERE b.id > p_from AND b.id <= v_to FOR UPDATE SKIP LOCKED);
    v_names := ARRAY(SELECT DISTINCT s.channel FROM unnest(v_rows) b CROSS JOIN unnest(b.shares) s);
    IF v_to IS NULL OR (SELECT COUNT(*) FROM served_by b WHERE b.id > p_from AND b.id <= v_to) > cardinality(v_rows)
        OR (SELECT COUNT(*) FROM tally y WHERE y.channel = ANY (v_names)) > cardinality(ARRAY(
            SELECT y.channel FROM tally y WHERE y.channel = ANY (v_names) FOR UPDATE SKIP LOCKED))
    THEN
        RETURN p_from;
    END IF;
    DELETE FROM served_by b WHERE b.id > p_from AND b.id <= v_to;
    INSERT INTO tally AS y (channel, served, served_at)
    SELECT s.channel, SUM(s.n), MAX(s.at) FROM unnest(v_rows) b CROSS JOIN unnest(b.shares) s GROUP BY s.channel
    ON CONFLICT (channel) DO UPDATE
    SET served = y.served + excluded.served, served_at = GREATEST(y.served_at, excluded.served_at);
    RETURN v_to;
END $$;
