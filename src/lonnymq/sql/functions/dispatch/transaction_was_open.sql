-- Whether the transaction in a row's xmax, which is the last 32 bits of its id, was open in a snapshot or began later.
-- FALSE for a subtransaction: a snapshot does not list those.
CREATE OR REPLACE FUNCTION transaction_was_open (p_xmax XID, p_snapshot PG_SNAPSHOT)
RETURNS BOOLEAN LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_next BIGINT := pg_snapshot_xmax(p_snapshot)::TEXT::BIGINT;
    v_back BIGINT := (v_next - p_xmax::TEXT::BIGINT) & 4294967295; -- how many ids ago
BEGIN
    IF v_back NOT BETWEEN 1 AND 2147483647 THEN
        RETURN TRUE;                        -- it began later
    END IF;
    RETURN v_back < v_next AND NOT pg_visible_in_snapshot((v_next - v_back)::TEXT::XID8, p_snapshot);
END $$;
