-- message_retry for many messages. p_tokens has one token per message, or one token for all of them. Locks the messages
-- in the order of their ids before it changes any. Returns one row (id, result) per element, in the order given.
CREATE OR REPLACE FUNCTION message_retry_many (
    p_ids BIGINT[], p_tokens UUID[], p_dequeue_ats BIGINT[] DEFAULT NULL, p_states BYTEA[] DEFAULT NULL,
    p_errors TEXT[] DEFAULT NULL, p_delays_ms BIGINT[] DEFAULT NULL, p_are_final BOOLEAN[] DEFAULT NULL)
RETURNS TABLE (id BIGINT, result TEXT) LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
BEGIN
    PERFORM array_lengths_check(cardinality(p_ids), cardinality(p_dequeue_ats), cardinality(p_delays_ms));
    PERFORM time_check(u.at, format(' (message %s of %s)', u.ord, cardinality(p_ids)))
    FROM unnest(p_dequeue_ats) WITH ORDINALITY u (at, ord) WHERE u.at IS NOT NULL;
    PERFORM state_check(state) FROM unnest(p_states) u (state) WHERE state IS NOT NULL;
    IF p_delays_ms IS NOT NULL THEN
        p_dequeue_ats := delays_to_times(p_dequeue_ats, p_delays_ms, clock_ms());
    END IF;
    IF p_are_final IS NOT NULL THEN         -- whatever its dimensions and its lower bound
        p_are_final := ARRAY(SELECT unnest(p_are_final));
    END IF;
    RETURN QUERY SELECT * FROM message_settle(p_ids, p_tokens, NULL, p_dequeue_ats, p_states, p_errors, p_are_final);
END $$;
