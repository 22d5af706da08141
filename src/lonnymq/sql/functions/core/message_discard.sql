-- The work will not be done: delete the message, if the caller holds it, without another attempt. The history, if one
-- is kept, has it as cancelled, with the reason as its error.
-- Returns 'discarded', 'lost' or 'not_found'.
CREATE OR REPLACE FUNCTION message_discard (p_id BIGINT, p_token UUID, p_reason TEXT DEFAULT NULL)
RETURNS TEXT LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    RETURN (SELECT x.result FROM message_discard_many(ARRAY[p_id], ARRAY[p_token], ARRAY[p_reason]) x);
END $$;
