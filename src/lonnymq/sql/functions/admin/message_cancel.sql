-- Give a message up. One that waits goes. One that a worker holds is marked: its next extend is refused, and when it
-- completes or defers the message, or its lease runs out, the message goes; each tells 'cancelled'. READ COMMITTED
-- only.
-- Returns 'cancelled', 'marked', 'dead' (discard it with dead_discard) or 'not_found'.
CREATE OR REPLACE FUNCTION message_cancel (p_id BIGINT)
RETURNS TEXT LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    RETURN (SELECT x.result FROM message_cancel_many(ARRAY[p_id]) x);
END $$;
