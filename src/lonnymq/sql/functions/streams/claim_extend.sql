-- Extend the leases of all claims that are not complete. With p_forget, lost messages are removed from their claim, and
-- cancelled ones are finished.
-- Returns how many were extended, and how many could not be: others have them, or they are finished or cancelled.
CREATE OR REPLACE FUNCTION claim_extend (
    p_claimant TEXT, p_generation BIGINT, p_lease_ms BIGINT DEFAULT NULL, p_forget BOOLEAN DEFAULT FALSE)
RETURNS TABLE (extended BIGINT, lost BIGINT) LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    c claimant := claim_check(p_claimant, p_generation, p_forget);
    v_ids BIGINT[];
    v_tokens UUID[];
    v_lost BIGINT[];
BEGIN
    SELECT array_agg(x.id), array_agg(x.token) INTO v_ids, v_tokens FROM claim x
    WHERE x.claimant = p_claimant AND x.seq > c.done_seq;
    IF v_ids IS NOT NULL THEN
        SELECT array_agg(e.id) FILTER (WHERE e.result <> 'extended') INTO v_lost
        FROM message_extend_many(v_ids, v_tokens, COALESCE(p_lease_ms, (SELECT q.lease_ms FROM queue q))) e;
    END IF;
    lost := COALESCE(cardinality(v_lost), 0);
    extended := COALESCE(cardinality(v_ids), 0) - lost;
    IF p_forget AND lost > 0 THEN
        -- COALESCE makes the planner look the ids up in a hash table.
        WITH gone AS (
            DELETE FROM claim x
            WHERE x.claimant = p_claimant AND x.seq > c.done_seq
                AND COALESCE(x.id IN (SELECT u FROM unnest(v_lost) u), FALSE)
            RETURNING x.id, x.token)
        SELECT array_agg(g.id), array_agg(g.token) INTO v_ids, v_tokens FROM gone g;
        PERFORM message_complete_many(v_ids, v_tokens);
    END IF;
    RETURN NEXT;
END $$;
