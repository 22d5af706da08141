-- message_extend for many messages. p_tokens has one token per message, or one token for all of them. Cancelled
-- messages are not extended. Returns one row (id, result, lease_end_at) per element, in the order given.
-- Locks the messages that get a state, in the order of their ids, and then the rows of the leases, in the order of
-- their keys. If a lease row was replaced meanwhile, it searches again. Writes a notice with the new ends, because a
-- sweep may have passed them by the time this commits.
CREATE OR REPLACE FUNCTION message_extend_many (
    p_ids BIGINT[], p_tokens UUID[], p_lease_ms BIGINT, p_states BYTEA[] DEFAULT NULL)
RETURNS TABLE (id BIGINT, result TEXT, lease_end_at BIGINT)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    v_end BIGINT;
    v_done ending[];                        -- the extended messages, with their ends
    v_again BOOLEAN;
    r RECORD;
    x RECORD;
BEGIN
    p_tokens := tokens_fill(p_tokens, cardinality(p_ids));
    PERFORM array_lengths_check(cardinality(p_ids), COALESCE(cardinality(p_tokens), 0), cardinality(p_states));
    PERFORM lease_check(p_lease_ms);
    IF num_nonnulls(VARIADIC p_states) > 0 THEN
        PERFORM state_check(state) FROM unnest(p_states) u (state) WHERE state IS NOT NULL;
        PERFORM message_write_states(p_ids, p_tokens, p_states);
    END IF;
    v_end := clock_ms() + p_lease_ms;
    FOR i IN 1 .. 100 LOOP
        v_done := '{}';
        v_again := FALSE;
        FOR r IN
            SELECT f.token, f.last_id, array_agg(f.id) AS ids FROM lease_find(p_ids, p_tokens) f
            GROUP BY f.token, f.last_id ORDER BY f.token, f.last_id
        LOOP
            x := lease_extend(r.token, r.last_id, r.ids, v_end);
            v_again := v_again OR NOT x.is_there;
            v_done := v_done || ARRAY(
                SELECT ROW(NULL, u, NULL, r.token, NULL, NULL, NULL, NULL, NULL, 'extended', x.end_at, NULL,
                    NULL, NULL)::ending
                FROM unnest(x.ids) u);
        END LOOP;
        EXIT WHEN NOT v_again;
    END LOOP;
    INSERT INTO notice (lease_end_at) SELECT DISTINCT d.at FROM unnest(v_done) d;
    RETURN QUERY
    SELECT * FROM message_results(p_ids, p_tokens, v_done, FALSE);
END $$;
