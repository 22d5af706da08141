-- For readers that follow the history by snapshot: the current snapshot, the cluster (transaction ids of another mean
-- nothing here), up to which transaction rows may have been dropped, of the history and of the policies, and whether a
-- history is kept at all. A standby does not list open transactions, so there the snapshot ends below the first of
-- them.
CREATE OR REPLACE FUNCTION history_bounds ()
RETURNS TABLE (snapshot TEXT, system_id BIGINT, trimmed_xid BIGINT, is_kept BOOLEAN, policies_trimmed_xid BIGINT)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path FROM CURRENT AS $$
BEGIN
    RETURN QUERY
    SELECT CASE WHEN pg_is_in_recovery() THEN format('%1$s:%1$s:', pg_snapshot_xmin(s.now))
        ELSE s.now::TEXT END, (SELECT system_identifier FROM pg_control_system()), u.trimmed_xid::TEXT::BIGINT,
            q.history, u.policies_xid::TEXT::BIGINT
    FROM maintenance u CROSS JOIN queue q CROSS JOIN (SELECT pg_current_snapshot() AS now) s;
END $$;
