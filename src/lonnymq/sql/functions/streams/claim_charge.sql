-- Part of claim_begin: a reader did not complete a claim of this message alone. That uses up an attempt. The message
-- stays leased and claimed, so that it is processed alone again; after its last attempt it is dead. Locks the message.
-- Returns whether it died.
CREATE OR REPLACE FUNCTION claim_charge (p_claimant TEXT, p_id BIGINT, p_token UUID)
RETURNS BOOLEAN LANGUAGE plpgsql AS $$
DECLARE
    v_error TEXT := format('%s failed, or was stopped, while it processed this message alone', p_claimant);
    v_result TEXT;
BEGIN
    UPDATE message m SET attempts = m.attempts + 1, error = v_error, rejected_at = NULL
    WHERE m.id = p_id AND m.attempts + 1 < COALESCE(m.max_attempts, (SELECT q.max_attempts FROM queue q));
    IF FOUND THEN
        RETURN FALSE;
    END IF;
    DELETE FROM claim x WHERE x.claimant = p_claimant AND x.id = p_id AND x.token = p_token;
    v_result := (SELECT r.result FROM message_retry_many(ARRAY[p_id], ARRAY[p_token], p_errors => ARRAY[v_error]) r);
    RETURN v_result = 'dead';
END $$;
