-- Whether the transaction in a row's xmax, which is the last 32 bits of its id, is still running. FALSE for one that
-- began after the caller's snapshot.
CREATE OR REPLACE FUNCTION transaction_is_open (p_xmax XID)
RETURNS BOOLEAN LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_next BIGINT := pg_snapshot_xmax(pg_current_snapshot())::TEXT::BIGINT;
    v_back BIGINT := (v_next - p_xmax::TEXT::BIGINT) & 4294967295; -- how many ids ago
BEGIN
    RETURN p_xmax <> '0' AND v_back BETWEEN 1 AND LEAST(v_next, 2147483648) - 1
        AND COALESCE(pg_xact_status((v_next - v_back)::TEXT::XID8) = 'in progress', FALSE);
END $$;
