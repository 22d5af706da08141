-- Part of message_extend_many: store the last state that was given for each message, if the caller holds the message
-- and it is not cancelled. The lease goes on, so the message keeps its generation. Locks the messages that get a state,
-- in the order of their ids.
CREATE OR REPLACE FUNCTION message_write_states (p_ids BIGINT[], p_tokens UUID[], p_states BYTEA[])
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    g RECORD;                               -- the elements that have a state, the last one first
    v_held ending[];
BEGIN
    SELECT array_agg(u.id ORDER BY u.ord DESC) AS ids, array_agg(u.token ORDER BY u.ord DESC) AS tokens,
        array_agg(u.state ORDER BY u.ord DESC) AS states
    INTO g
    FROM unnest(p_ids, p_tokens, p_states) WITH ORDINALITY u (id, token, state, ord) WHERE u.state IS NOT NULL;
    v_held := ARRAY(
        SELECT e FROM lease_lock(g.ids, g.tokens, NULL, p_states => g.states) e WHERE e.outcome IS NULL);
    UPDATE message m SET state = e.state FROM unnest(v_held) e WHERE m.id = e.id;
END $$;
