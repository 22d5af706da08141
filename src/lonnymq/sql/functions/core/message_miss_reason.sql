-- Why a call did nothing to a message: 'cancelled' if the caller holds it and somebody cancelled it; 'lost' if it
-- exists without this token, or is dead; otherwise 'not_found'.
CREATE OR REPLACE FUNCTION message_miss_reason (p_id BIGINT, p_token UUID)
RETURNS TEXT LANGUAGE plpgsql AS $$
DECLARE
    v_is_cancelled BOOLEAN;
BEGIN
    IF bound_channels() IS NOT NULL THEN
        RETURN 'not_found';                 -- a bound login must not learn which ids exist
    END IF;
    SELECT m.is_cancelled AND EXISTS (
        SELECT FROM lease_find(ARRAY[p_id], ARRAY[p_token]) f WHERE f.generation = m.generation)
    INTO v_is_cancelled FROM message m WHERE m.id = p_id;
    IF FOUND THEN
        RETURN CASE WHEN v_is_cancelled THEN 'cancelled' ELSE 'lost' END;
    ELSIF EXISTS (SELECT FROM dead WHERE id = p_id) THEN
        RETURN 'lost';
    END IF;
    RETURN 'not_found';
END $$;
