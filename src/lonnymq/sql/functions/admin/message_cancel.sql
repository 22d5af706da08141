-- Cancel a message. A waiting one is deleted. A leased one is marked: its next extend is refused, and it is deleted
-- when its worker completes or retries it, or when its lease runs out; these calls return 'cancelled'. READ COMMITTED
-- only.
-- Returns 'cancelled', 'marked', 'dead' (use dead_discard) or 'not_found'.
CREATE OR REPLACE FUNCTION message_cancel (p_id BIGINT)
RETURNS TEXT LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    RETURN (SELECT x.result FROM message_cancel_many(ARRAY[p_id]) x);
END $$;
