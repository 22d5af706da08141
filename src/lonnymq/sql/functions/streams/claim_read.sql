-- The messages of the claims after p_after, up to p_upto, that are still held; split into p_parts parts, of which this
-- is number p_part, counted from 0. Locks nothing.
CREATE OR REPLACE FUNCTION claim_read (
    p_claimant TEXT, p_generation BIGINT, p_after BIGINT, p_upto BIGINT, p_part INT DEFAULT 0, p_parts INT DEFAULT 1)
RETURNS TABLE (
    seq BIGINT, id BIGINT, channel TEXT, content BYTEA, headers JSONB, state BYTEA, attempts INT, dedupe_key TEXT,
    created_at BIGINT, dequeue_at BIGINT, dequeued_at BIGINT, lane TEXT, priority INT, cost INT)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    v_seqs BIGINT[];
    v_ids BIGINT[];
    v_tokens UUID[];
BEGIN
    IF p_part IS NULL OR p_parts IS NULL OR p_parts < 1 OR p_part NOT BETWEEN 0 AND p_parts - 1 THEN
        PERFORM refuse('LM005',
            format('there is no part %s of %s', COALESCE(p_part::TEXT, 'NULL'), COALESCE(p_parts::TEXT, 'NULL')),
            'Give p_parts of 1 or more, and a p_part from 0 to p_parts - 1.');
    END IF;
    PERFORM claim_check(p_claimant, p_generation, FALSE);
    SELECT array_agg(x.seq), array_agg(x.id), array_agg(x.token) INTO v_seqs, v_ids, v_tokens
    FROM (
        SELECT x.seq, x.id, x.token FROM claim x
        WHERE x.claimant = p_claimant AND x.seq > p_after AND x.seq <= p_upto AND x.ord % p_parts = p_part
        ORDER BY x.seq, x.ord) x;
    RETURN QUERY
    SELECT v_seqs[f.ord], m.id, m.channel::TEXT, m.content, m.headers, m.state, m.attempts + 1, m.dedupe_key::TEXT,
        m.created_at, m.dequeue_at, f.dequeued_at, m.lane::TEXT, m.priority::INT, m.cost
    FROM (SELECT * FROM lease_find(v_ids, v_tokens) f ORDER BY f.ord) f
    CROSS JOIN LATERAL (SELECT * FROM message m WHERE m.id = f.id AND m.generation = f.generation OFFSET 0) m;
END $$;
