-- Part of message_extend_many: the last state given for a message is what its next attempt finds, if the caller holds
-- it and it is not cancelled. Its lease goes on, so it has no new generation. Locks these messages in the order of
-- their ids.
CREATE OR REPLACE FUNCTION message_write_states (p_ids BIGINT[], p_tokens UUID[], p_states BYTEA[])
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_mine ending[] := ARRAY(SELECT e FROM lease_lock(p_ids, p_tokens, NULL) e WHERE e.outcome IS NULL);
BEGIN
    UPDATE message m SET state = s.state
    FROM (
        SELECT DISTINCT ON (u.id) u.id, u.state
        FROM unnest(p_ids, p_tokens, p_states) WITH ORDINALITY u (id, token, state, ord)
        WHERE u.state IS NOT NULL AND COALESCE((u.id, u.token) IN (SELECT e.id, e.token FROM unnest(v_mine) e), FALSE)
        ORDER BY u.id, u.ord DESC) s
    WHERE m.id = s.id;
END $$;
