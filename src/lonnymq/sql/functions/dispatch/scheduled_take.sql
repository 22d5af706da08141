-- Take rows out of scheduled, as far as nobody holds them. Returns what was had, and the ids of those and of what was
-- gone already: who is not among them is held.
CREATE OR REPLACE FUNCTION scheduled_take (p_keys scheduled[], OUT entries entry[], OUT ids BIGINT[])
LANGUAGE plpgsql AS $$
DECLARE
    v_gone BIGINT[];
BEGIN
    WITH had AS (
        DELETE FROM scheduled s WHERE s.ctid = ANY (ARRAY(
            SELECT x.tid FROM unnest(p_keys) k
            CROSS JOIN LATERAL (
                SELECT s.ctid AS tid FROM scheduled s WHERE s.at = k.at AND s.id = k.id AND s.generation = k.generation
                FOR UPDATE SKIP LOCKED) x))
        RETURNING s.*)
    SELECT array_agg(ROW(h.id, h.generation, h.rank, h.at, h.cost, h.lane, h.channel)::entry), array_agg(h.id)
    INTO entries, ids FROM had h;
    IF cardinality(p_keys) > COALESCE(cardinality(ids), 0) THEN
        SELECT array_agg(k.id) INTO v_gone FROM unnest(p_keys) k
        WHERE NOT EXISTS (
            SELECT FROM scheduled s WHERE s.at = k.at AND s.id = k.id AND s.generation = k.generation);
        ids := ids || v_gone;
    END IF;
END $$;
