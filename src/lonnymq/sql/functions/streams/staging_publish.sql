-- Make messages of the rows that the caller's login role has staged under a batch, in their order, and take them
-- away. All of it, or nothing, is there when the transaction commits: when a channel is full, that is an error
-- (LM017), unless p_drop_full allows its rows to be left out. A batch with dedupe keys, or any where channels have a
-- max_size, holds at most 100,000: their locks are taken in order. Returns how many messages were created, and how
-- many were not: duplicates, or their channel is full.
CREATE OR REPLACE FUNCTION staging_publish (p_batch UUID, p_drop_full BOOLEAN DEFAULT FALSE)
RETURNS TABLE (created BIGINT, duplicates BIGINT, refused BIGINT) LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET enable_seqscan TO off SET enable_bitmapscan TO off SET jit TO off AS $$
BEGIN
    RETURN QUERY SELECT * FROM staging_create(ARRAY[p_batch], COALESCE(p_drop_full, FALSE));
END $$;
