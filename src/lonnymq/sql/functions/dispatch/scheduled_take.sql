-- Take rows out of scheduled and return them as entries. Rows that somebody has locked, such as an open cancel, get an
-- alarm one second later.
CREATE OR REPLACE FUNCTION scheduled_take (p_rows scheduled[], p_now BIGINT)
RETURNS entry[] LANGUAGE plpgsql AS $$
DECLARE
    v_entries entry[];
BEGIN
    WITH taken AS (
        DELETE FROM scheduled s WHERE s.ctid = ANY (ARRAY(
            SELECT x.tid FROM unnest(p_rows) k
            CROSS JOIN LATERAL (
                SELECT s.ctid AS tid FROM scheduled s WHERE s.at = k.at AND s.id = k.id AND s.generation = k.generation
                FOR UPDATE SKIP LOCKED) x))
        RETURNING s.*)
    SELECT array_agg(ROW(t.id, t.generation, t.rank, t.at, t.cost, t.lane, t.channel)::entry) INTO v_entries
    FROM taken t;
    IF cardinality(p_rows) > COALESCE(cardinality(v_entries), 0) THEN
        INSERT INTO alarm (at, scheduled_at, scheduled_id, scheduled_generation)
        SELECT p_now + 1000, k.at, k.id, k.generation FROM unnest(p_rows) k
        CROSS JOIN LATERAL (
            SELECT FROM scheduled s WHERE s.at = k.at AND s.id = k.id AND s.generation = k.generation OFFSET 0) s;
    END IF;
    RETURN v_entries;
END $$;
