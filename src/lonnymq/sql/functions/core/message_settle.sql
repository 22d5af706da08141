-- Complete, discard or retry the messages that the caller has leased: the common part of the batch calls. If a message
-- is given more than once, the first element with the right token counts. p_tokens has one token per message, or one
-- token for all of them.
-- p_outcome is 'completed' or 'cancelled'; NULL returns the message for another attempt, unless lease_lock decides that
-- it is dead or cancelled. p_ats, p_states, p_errors, p_are_final and p_results hold one element per message, or are
-- NULL.
-- Locks the messages in the order of their ids, in one statement, then their dedupe keys and leases: two calls never
-- deadlock. Returns one row (id, result) per element, in the order given.
CREATE OR REPLACE FUNCTION message_settle (
    p_ids BIGINT[], p_tokens UUID[], p_outcome TEXT, p_ats BIGINT[] DEFAULT NULL, p_states BYTEA[] DEFAULT NULL,
    p_errors TEXT[] DEFAULT NULL, p_are_final BOOLEAN[] DEFAULT NULL, p_results given_result[] DEFAULT NULL)
RETURNS TABLE (id BIGINT, result TEXT) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_endings ending[];
BEGIN
    p_tokens := tokens_fill(p_tokens, cardinality(p_ids));
    PERFORM array_lengths_check(cardinality(p_ids), COALESCE(cardinality(p_tokens), 0), cardinality(p_ats),
        cardinality(p_states), cardinality(p_errors), cardinality(p_are_final), cardinality(p_results));
    v_endings := ARRAY(
        SELECT e FROM lease_lock(p_ids, p_tokens, p_outcome, p_ats, p_states, p_errors, p_are_final,
            p_results) e);
    IF v_endings <> '{}' THEN
        IF p_outcome IS NOT NULL OR EXISTS (SELECT FROM unnest(v_endings) e WHERE e.outcome IS NOT NULL) THEN
            PERFORM message_finish(v_endings, clock_ms());
        END IF;
        IF p_outcome IS NULL THEN
            PERFORM message_return(v_endings);
        END IF;
        PERFORM lease_close(v_endings);
        IF p_outcome IS NULL THEN
            PERFORM sleep_notify();
        END IF;
    END IF;
    RETURN QUERY SELECT r.id, r.result FROM message_results(p_ids, p_tokens, v_endings) r;
END $$;
