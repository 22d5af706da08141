-- Part of maintain: whether there is anything to do besides deleting notices. Writes nothing and waits for no one: if
-- another session is dropping a partition, that session does the work.
CREATE OR REPLACE FUNCTION maintenance_is_due (p_maintenance maintenance, p_now BIGINT)
RETURNS BOOLEAN LANGUAGE plpgsql AS $$
BEGIN
    BEGIN
        LOCK TABLE finished_other IN ACCESS SHARE MODE NOWAIT;
    EXCEPTION WHEN lock_not_available THEN
        RETURN FALSE;
    END;
    RETURN EXISTS (
            SELECT FROM dedupe d
            WHERE d.check_at > CASE WHEN p_maintenance.dedupe_day = p_now / 86400000 THEN p_maintenance.dedupe_from
                ELSE -1 END AND d.check_at <= p_now)
        OR EXISTS (
            SELECT FROM result r
            WHERE r.until_at > CASE WHEN p_maintenance.dedupe_day = p_now / 86400000 THEN p_maintenance.results_from
                ELSE -1 END AND r.until_at <= p_now)
        OR EXISTS (
            SELECT FROM saved_result s
            WHERE s.until_at > CASE WHEN p_maintenance.dedupe_day = p_now / 86400000 THEN p_maintenance.results_from
                ELSE -1 END AND s.until_at <= p_now)
        OR p_maintenance.progress_at NOT BETWEEN p_now - 60000 AND p_now AND EXISTS (SELECT FROM progress)
        OR EXISTS (SELECT FROM staging s WHERE s.staged_at < p_now - 86400000)
        OR EXISTS (SELECT FROM staging_chunk s WHERE s.staged_at < p_now - 86400000)
        OR (SELECT q.history FROM queue q) AND EXISTS (SELECT FROM history_missing(p_now))
        OR EXISTS (SELECT FROM history_old(history_keep_from(p_now)))
        OR EXISTS (SELECT FROM history_other_old(history_keep_from(p_now), 1))
        OR EXISTS (SELECT FROM (SELECT d.at FROM dead_mark d ORDER BY d.xid LIMIT 1) d
            WHERE d.at < p_now - 90 * 86400000::BIGINT)
        OR EXISTS (SELECT FROM ledger l WHERE NOT l.is_lasting AND l.published_at < p_now - 86400000)
        OR EXISTS (SELECT FROM worker w WHERE w.seen_at < p_now - 3600000)
        OR EXISTS (SELECT FROM batch_count c WHERE c.finished_at <= batch_keep_from(p_now))
        OR EXISTS (SELECT FROM policy_old(history_keep_from(p_now), 1))
        OR EXISTS (SELECT FROM audit a WHERE a.at <= audit_keep_from(p_now))
        OR EXISTS (SELECT FROM credential_stale());
END $$;
