-- Return messages that the caller has leased and cannot handle, for example because it does not know their task, for
-- another consumer. That uses up no attempt. A message waits for 0.25 seconds or for a quarter of the time since it was
-- first rejected, whichever is longer, up to a minute; this varies at random by up to a quarter. If it was first
-- rejected more than p_timeout_ms ago, it becomes a dead letter with its element of p_errors; with 0 at once, with NULL
-- never. An attempt that fails starts that time anew.
-- p_tokens has one token per message, or one token for all of them. Locks the messages in the order of their ids.
-- Returns one row (id, result) per element, in the order given: 'rejected', 'dead', 'cancelled', 'lost' or 'not_found'.
CREATE OR REPLACE FUNCTION message_reject_many (
    p_ids BIGINT[], p_tokens UUID[], p_errors TEXT[], p_timeout_ms BIGINT DEFAULT NULL)
RETURNS TABLE (id BIGINT, result TEXT) LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    v_now BIGINT := clock_ms();
    v_ats BIGINT[];
    v_errors TEXT[];
    v_are_final BOOLEAN[];
    v_ids BIGINT[];
    v_results TEXT[];
BEGIN
    PERFORM array_lengths_check(cardinality(p_ids), COALESCE(cardinality(p_errors), 0));
    IF NOT delay_is_valid(p_timeout_ms) THEN
        PERFORM refuse('LM003', format('a timeout of %s ms is out of range', p_timeout_ms), 'Give 0 to 2^52 ms.');
    END IF;
    -- Reads without locks: nobody but the holder of its lease rejects a message.
    SELECT array_agg(CASE WHEN NOT x.is_final THEN v_now + x.delay_ms END ORDER BY x.ord),
        array_agg(CASE WHEN x.is_final THEN x.error END ORDER BY x.ord), array_agg(x.is_final ORDER BY x.ord)
    INTO v_ats, v_errors, v_are_final
    FROM (
        SELECT u.ord, u.error, COALESCE(a.age_ms >= p_timeout_ms, FALSE) AS is_final,
            (LEAST(GREATEST(a.age_ms / 4, 250), 60000) * (0.75 + random() / 2))::BIGINT AS delay_ms
        FROM unnest(p_ids, p_errors) WITH ORDINALITY u (id, error, ord)
        LEFT JOIN LATERAL (SELECT m.rejected_at FROM message m WHERE m.id = u.id OFFSET 0) m ON TRUE
        CROSS JOIN LATERAL (SELECT GREATEST(0, v_now - COALESCE(m.rejected_at, v_now)) AS age_ms) a) x;
    SELECT array_agg(s.id), array_agg(CASE s.result WHEN 'retried' THEN 'rejected' ELSE s.result END)
    INTO v_ids, v_results
    FROM message_settle(p_ids, p_tokens, NULL, v_ats, NULL, v_errors, v_are_final) s;
    UPDATE message m SET rejected_at = v_now FROM unnest(v_ids, v_results) r (id, result)
    WHERE m.id = r.id AND r.result = 'rejected' AND m.rejected_at IS NULL;
    RETURN QUERY SELECT * FROM unnest(v_ids, v_results);
END $$;
