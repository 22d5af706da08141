-- The rows of finished_other from before a time that all followers have read. A follower whose position is from another
-- cluster counts as not having read them.
CREATE OR REPLACE FUNCTION history_other_old (p_before BIGINT, p_limit INT)
RETURNS SETOF TID LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY
    SELECT o.ctid FROM finished_other o
    WHERE o.finished_at < p_before AND NOT EXISTS (
        SELECT FROM follower f
        WHERE NOT pg_visible_in_snapshot(o.xid, f.snapshot) OR f.system_id <> (SELECT system_identifier
            FROM pg_control_system()))
    LIMIT p_limit;
END $$;
