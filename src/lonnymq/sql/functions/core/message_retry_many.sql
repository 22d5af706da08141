-- message_retry for many, each with its token or all with one: one row (id, result) each, in the order given. Locks
-- the messages in the order of their ids, before it changes any.
CREATE OR REPLACE FUNCTION message_retry_many (
    p_ids BIGINT[], p_tokens UUID[], p_dequeue_ats BIGINT[] DEFAULT NULL, p_states BYTEA[] DEFAULT NULL,
    p_errors TEXT[] DEFAULT NULL, p_delays_ms BIGINT[] DEFAULT NULL)
RETURNS TABLE (id BIGINT, result TEXT) LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    v_now BIGINT := clock_ms();
    v_endings ending[];
BEGIN
    p_tokens := tokens_fill(p_tokens, cardinality(p_ids));
    PERFORM array_lengths_check(cardinality(p_ids), COALESCE(cardinality(p_tokens), 0), cardinality(p_dequeue_ats),
        cardinality(p_states), cardinality(p_errors), cardinality(p_delays_ms));
    PERFORM time_check(u.at, format(' (message %s of %s)', u.ord, cardinality(p_ids)))
    FROM unnest(p_dequeue_ats) WITH ORDINALITY u (at, ord) WHERE u.at IS NOT NULL;
    PERFORM state_check(state) FROM unnest(p_states) u (state) WHERE state IS NOT NULL;
    IF p_delays_ms IS NOT NULL THEN
        p_dequeue_ats := delays_to_times(p_dequeue_ats, p_delays_ms, v_now);
    END IF;
    v_endings := ARRAY(SELECT e FROM lease_lock(p_ids, p_tokens, NULL, p_dequeue_ats, p_states, p_errors) e);
    IF v_endings <> '{}' THEN
        IF EXISTS (SELECT FROM unnest(v_endings) e WHERE e.outcome IS NOT NULL) THEN
            PERFORM message_finish(v_endings, v_now);
        END IF;
        PERFORM message_return(v_endings);
        PERFORM lease_close(v_endings);
        PERFORM sleep_notify();
    END IF;
    RETURN QUERY SELECT * FROM message_results(p_ids, p_tokens, v_endings);
END $$;
