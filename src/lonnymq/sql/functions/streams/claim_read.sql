-- The messages of the claims behind p_after, up to p_upto, that are still held; in p_parts parts, of which this is number p_part, from 0.
CREATE OR REPLACE FUNCTION claim_read (p_claimant TEXT, p_generation BIGINT, p_after BIGINT, p_upto BIGINT, p_part INT DEFAULT 0, p_parts INT DEFAULT 1)
RETURNS TABLE (
    seq BIGINT, id BIGINT, channel TEXT, content BYTEA, headers JSONB, state BYTEA, attempts INT, dedupe_key TEXT,
    created_at BIGINT, dequeue_at BIGINT, dequeued_at BIGINT)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path FROM CURRENT SET plan_cache_mode TO force_generic_plan SET enable_seqscan TO off SET enable_bitmapscan TO off
SET enable_hashjoin TO off SET enable_mergejoin TO off SET jit TO off AS $$
#variable_conflict use_column
BEGIN
    IF p_part IS NULL OR p_parts IS NULL OR p_parts < 1 OR p_part NOT BETWEEN 0 AND p_parts - 1 THEN
        PERFORM refuse('LM005', 'there is no such part of a claim', 'Parts are counted from 0, and there is at least one.');
    END IF;
    PERFORM claim_check(p_claimant, p_generation, FALSE);
    RETURN QUERY
    SELECT x.seq, m.id, m.channel::TEXT, m.content, m.headers, m.state, m.attempts + 1, m.dedupe_key::TEXT, m.created_at, m.dequeue_at, m.dequeued_at
    FROM claim x CROSS JOIN LATERAL (SELECT * FROM message m WHERE m.id = x.id AND m.token = x.token OFFSET 0) m
    WHERE x.claimant = p_claimant AND x.seq > p_after AND x.seq <= p_upto AND x.ord % p_parts = p_part
    ORDER BY x.seq, x.ord;
END $$;
