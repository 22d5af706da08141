-- The rows of policy_log that were superseded before a time and that all followers have read, the oldest first. A
-- follower whose position is from another cluster counts as not having read them.
CREATE OR REPLACE FUNCTION policy_old (p_before BIGINT, p_limit INT)
RETURNS SETOF TID LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY
    SELECT p.ctid FROM policy_log p
    WHERE p.superseded_at < p_before AND NOT EXISTS (
        SELECT FROM follower f
        WHERE NOT pg_visible_in_snapshot(p.xid, f.snapshot) OR f.system_id <> (SELECT system_identifier
            FROM pg_control_system()))
    ORDER BY p.superseded_at, p.id LIMIT p_limit; -- a deletion after the policy that it ended
END $$;
