-- Part of message_extend_many: lock one row of a lease and move its end to p_end, if that is later, for those of its
-- messages that are in p_ids. If the row has other messages too, it is split: each row has messages that are neighbours
-- in the order of ids and share one end. Messages that are finished or were returned are left out.
-- Returns the extended messages and their end. is_there is FALSE if the row is not the one that was found before: it
-- was deleted or split meanwhile.
CREATE OR REPLACE FUNCTION lease_extend (
    p_token UUID, p_last_id BIGINT, p_ids BIGINT[], p_end BIGINT,
    OUT is_there BOOLEAN, OUT ids BIGINT[], OUT end_at BIGINT)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    l lease;
    v_others stub[];
BEGIN
    SELECT * INTO l FROM lease x WHERE x.token = p_token AND x.last_id = p_last_id FOR UPDATE;
    is_there := FOUND AND NOT EXISTS (SELECT FROM unnest(p_ids) i WHERE i <> ALL (ARRAY(SELECT s.id
        FROM unnest(l.stubs) s)));
    IF NOT is_there THEN
        RETURN;
    END IF;
    SELECT array_agg(s.id) FILTER (WHERE s.id = ANY (p_ids) AND NOT m.is_cancelled),
        array_agg(s) FILTER (WHERE s.id <> ALL (p_ids) OR m.is_cancelled)
    INTO ids, v_others
    FROM unnest(l.stubs) s
    CROSS JOIN LATERAL (
        SELECT m.is_cancelled FROM message m WHERE m.id = s.id AND m.generation = s.generation OFFSET 0) m;
    end_at := GREATEST(l.end_at, p_end);
    IF ids IS NULL OR end_at = l.end_at THEN
        RETURN;
    ELSIF v_others IS NULL THEN
        UPDATE lease x SET end_at = p_end WHERE x.token = p_token AND x.last_id = p_last_id;
        RETURN;
    END IF;
    DELETE FROM lease x WHERE x.token = p_token AND x.last_id = p_last_id;
    INSERT INTO lease (token, last_id, end_at, dequeued_at, is_limited, consumer, stubs)
    SELECT p_token, MAX(y.id), CASE WHEN y.is_longer THEN p_end ELSE l.end_at END, l.dequeued_at, l.is_limited,
        l.consumer, array_agg(y.s ORDER BY y.id)
    FROM (
        SELECT z.*,
            ROW_NUMBER() OVER (ORDER BY z.id) - ROW_NUMBER() OVER (PARTITION BY z.is_longer ORDER BY z.id) AS run
        FROM (
            SELECT s, s.id, s.id = ANY (ids) AS is_longer FROM unnest(l.stubs) s
            WHERE s.id = ANY (ids) OR s = ANY (v_others)) z) y
    GROUP BY y.is_longer, y.run;
END $$;
