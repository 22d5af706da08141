-- Part of claim_complete: of the messages p_ids, with the tokens of their leases, those in p_failed_ids have failed
-- with p_errors. Locks all of p_ids first, in their order, so that the caller can complete the others.
-- Returns the others, and how many failed, had been cancelled, or are lost.
CREATE OR REPLACE FUNCTION claim_fail (
    p_ids BIGINT[], p_tokens UUID[], p_failed_ids BIGINT[], p_errors TEXT[], OUT ids BIGINT[], OUT tokens UUID[],
    OUT failed BIGINT, OUT cancelled BIGINT, OUT lost BIGINT)
LANGUAGE plpgsql SET enable_hashjoin TO on AS $$
#variable_conflict use_column
DECLARE
    v_ids BIGINT[];
    v_tokens UUID[];
    v_errors TEXT[];
    v_delays BIGINT[];
BEGIN
    PERFORM FROM message m WHERE m.id = ANY (p_ids) ORDER BY m.id FOR UPDATE;
    WITH split AS MATERIALIZED (
        SELECT u.id, u.token, f.error FROM unnest(p_ids, p_tokens) u (id, token)
        LEFT JOIN (
            SELECT x.id, MIN(left(COALESCE(x.error, ''), 10000)) AS error
            FROM unnest(p_failed_ids, p_errors) x (id, error)
            GROUP BY x.id) f ON f.id = u.id)
    SELECT array_agg(s.id) FILTER (WHERE s.error IS NULL), array_agg(s.token) FILTER (WHERE s.error IS NULL),
        array_agg(s.id) FILTER (WHERE s.error IS NOT NULL), array_agg(s.token) FILTER (WHERE s.error IS NOT NULL),
        array_agg(s.error) FILTER (WHERE s.error IS NOT NULL),
        array_agg(LEAST(600000, 1000 * 2 ^ LEAST(20, COALESCE(m.attempts, 0))) * (0.5 + random() / 2))
            FILTER (WHERE s.error IS NOT NULL)
    INTO ids, tokens, v_ids, v_tokens, v_errors, v_delays
    FROM split s
    LEFT JOIN LATERAL (
        SELECT m.attempts FROM message m WHERE s.error IS NOT NULL AND m.id = s.id OFFSET 0) m ON TRUE;
    SELECT COUNT(*) FILTER (WHERE r.result IN ('retried', 'dead')), COUNT(*) FILTER (WHERE r.result = 'cancelled'),
        COUNT(*) FILTER (WHERE r.result NOT IN ('retried', 'dead', 'cancelled'))
    INTO failed, cancelled, lost
    FROM message_retry_many(COALESCE(v_ids, '{}'), COALESCE(v_tokens, '{}'), p_errors => COALESCE(v_errors, '{}'),
        p_delays_ms => COALESCE(v_delays, '{}')) r;
END $$;
