-- Scheduled messages whose time has come, up to p_limit, in the order of time. What somebody holds, such as an open
-- cancel, is looked at again a second later (alarm). Returns up to where scheduled is read, too.
CREATE OR REPLACE FUNCTION entries_due (p_due_to BIGINT, p_now BIGINT, p_limit INT, OUT entries entry[],
    OUT due_to BIGINT)
LANGUAGE plpgsql AS $$
DECLARE
    v_keys scheduled[];
    v_got BIGINT[];
BEGIN
    SELECT array_agg(s.s) INTO v_keys
    FROM (SELECT s FROM scheduled s WHERE s.at > p_due_to AND s.at <= p_now ORDER BY s.at, s.id LIMIT p_limit) s;
    -- All rows of one time together: the limit may cut them, and then the last time is read again.
    due_to := CASE WHEN cardinality(v_keys) = p_limit THEN (v_keys[p_limit]).at - 1 ELSE GREATEST(p_due_to, p_now) END;
    IF v_keys IS NULL THEN
        RETURN;
    END IF;
    SELECT * INTO entries, v_got FROM scheduled_take(v_keys);
    INSERT INTO alarm (at, scheduled_at, scheduled_id, scheduled_generation)
    SELECT p_now + 1000, k.at, k.id, k.generation FROM unnest(v_keys) k WHERE k.id <> ALL (COALESCE(v_got, '{}'));
END $$;
