-- Create messages from the rows that the caller's login role has staged under a batch, in their order, and delete the
-- rows. All or nothing: a full channel is an error (LM017), unless p_drop_full allows its rows to be left out. A batch
-- with dedupe keys, or any batch if channels have a max_size, has at most 100,000 rows, because their locks are taken
-- in order. Returns how many messages were created, and how many were not: duplicates, or rows for a full channel.
CREATE OR REPLACE FUNCTION staging_publish (p_batch UUID, p_drop_full BOOLEAN DEFAULT FALSE)
RETURNS TABLE (created BIGINT, duplicates BIGINT, refused BIGINT) LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET enable_seqscan TO off SET enable_bitmapscan TO off SET jit TO off AS $$
BEGIN
    RETURN QUERY SELECT * FROM staging_create(ARRAY[p_batch], COALESCE(p_drop_full, FALSE));
END $$;
