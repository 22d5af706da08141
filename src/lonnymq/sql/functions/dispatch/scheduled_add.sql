-- Write the messages that are not due yet to scheduled. Returns the first of their times, less 1; NULL: there are none.
CREATE OR REPLACE FUNCTION scheduled_add (p_entries entry[], p_now BIGINT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    v_first BIGINT;
BEGIN
    WITH new AS (
        INSERT INTO scheduled (at, id, generation, rank, cost, lane, channel)
        SELECT e.at, e.id, e.generation, e.rank, e.cost, e.lane, e.channel FROM unnest(p_entries) e WHERE e.at > p_now
        RETURNING at)
    SELECT MIN(new.at) - 1 INTO v_first FROM new;
    RETURN v_first;
END $$;
