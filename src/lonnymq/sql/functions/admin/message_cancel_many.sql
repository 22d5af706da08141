-- message_cancel for many messages. Locks them in the order of their ids, and waits for an open dequeue or finishing
-- call of the same message. READ COMMITTED only. Returns one row (id, result) per element, in the order given.
CREATE OR REPLACE FUNCTION message_cancel_many (p_ids BIGINT[])
RETURNS TABLE (id BIGINT, result TEXT) LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    v_ids BIGINT[];
    v_endings ending[];
    v_waiting ending[];
    v_marked BIGINT[];                      -- the leased ones
BEGIN
    PERFORM isolation_check('message_cancel');
    PERFORM unbound_check('message_cancel');
    PERFORM array_lengths_check(cardinality(p_ids), NULL);
    v_ids := message_lock(p_ids);
    IF v_ids <> '{}' THEN
        v_endings := message_withdraw(v_ids, 'cancelled');
        v_marked := ARRAY(SELECT e.id FROM unnest(v_endings) e WHERE e.token IS NOT NULL);
        UPDATE message m SET is_cancelled = TRUE WHERE m.id = ANY (v_marked) AND NOT m.is_cancelled;
        v_waiting := ARRAY(SELECT e FROM unnest(v_endings) e WHERE e.token IS NULL);
        IF v_waiting <> '{}' THEN
            PERFORM message_finish(v_waiting, clock_ms());
            PERFORM cancelled_notify(v_waiting);
        END IF;
    END IF;
    RETURN QUERY
    SELECT x.id, CASE WHEN x.id = ANY (v_marked) THEN 'marked' WHEN x.id = ANY (v_ids) AND x.nth = 1 THEN 'cancelled'
        WHEN EXISTS (SELECT FROM dead d WHERE d.id = x.id) THEN 'dead' ELSE 'not_found' END
    FROM (
        SELECT u.id, u.ord, ROW_NUMBER() OVER (PARTITION BY u.id ORDER BY u.ord) AS nth
        FROM unnest(p_ids) WITH ORDINALITY u (id, ord)) x
    ORDER BY x.ord;
END $$;
