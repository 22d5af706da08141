-- Part of maintain, which has locked maintenance: delete dedupe keys that are free again, staged rows that were not
-- published for a day, jobs of the day before, workers that have not reported for an hour, results whose time is over,
-- progress of attempts that are over, finished batches, old rows of audit and of policies, and old partitions of the
-- history; create new partitions; and update the names of bound roles. Skips rows that are locked. Returns how many
-- rows and partitions were removed.
CREATE OR REPLACE FUNCTION maintenance_run (p_maintenance maintenance, p_now BIGINT, p_limit INT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    v_from BIGINT := p_maintenance.dedupe_from;
    v_last BIGINT;
    v_tids TID[];
    v_count BIGINT;
    v_gone BIGINT;
    v_chunks BIGINT;
    v_jobs BIGINT;
    v_workers BIGINT;
BEGIN
    -- A call may have committed late, behind the position of the last call, so once a day all keys are read.
    IF p_maintenance.dedupe_day <> p_now / 86400000 THEN
        v_from := -1;
    END IF;
    SELECT array_agg(d.tid), MAX(d.check_at) - 1 INTO v_tids, v_last
    FROM (
        SELECT d.ctid AS tid, d.check_at FROM dedupe d WHERE d.check_at > v_from AND d.check_at <= p_now
        ORDER BY d.check_at LIMIT p_limit FOR UPDATE SKIP LOCKED) d;
    v_count := dedupe_delete(v_tids, p_now);
    -- A message that exists is looked at again later: after as long as it has existed, so that one that waits for a
    -- month is looked at a few times only.
    UPDATE dedupe d SET check_at = p_now + LEAST(GREATEST(p_now - COALESCE((
        SELECT m.created_at FROM message m WHERE m.id = d.message_id), p_now), 600000), 86400000)
    WHERE d.ctid = ANY (v_tids) AND d.unique_for_ms IS NULL;
    UPDATE maintenance SET dedupe_from = CASE WHEN cardinality(v_tids) = p_limit THEN v_last
        ELSE p_now END, dedupe_day = p_now / 86400000;
    DELETE FROM staging s WHERE s.ctid = ANY (ARRAY(
        SELECT x.ctid FROM staging x WHERE x.staged_at < p_now - 86400000 ORDER BY x.staged_at
            LIMIT p_limit FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_gone = ROW_COUNT;
    DELETE FROM staging_chunk s WHERE s.ctid = ANY (ARRAY(
        SELECT x.ctid FROM staging_chunk x WHERE x.staged_at < p_now - 86400000 ORDER BY x.staged_at
            LIMIT p_limit FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_chunks = ROW_COUNT;
    DELETE FROM ledger l WHERE l.ctid = ANY (ARRAY(
        SELECT x.ctid FROM ledger x WHERE NOT x.is_lasting AND x.published_at < p_now - 86400000
            LIMIT p_limit FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_jobs = ROW_COUNT;
    DELETE FROM worker w WHERE w.id = ANY (ARRAY(
        SELECT x.id FROM worker x WHERE x.seen_at < p_now - 3600000 FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_workers = ROW_COUNT;
    v_gone := v_gone + v_chunks + v_count + v_jobs + v_workers + dead_unmark(p_now, p_limit)
        + history_trim(p_now, p_limit)
        + results_delete(p_maintenance, p_now, p_limit) + batch_trim(p_now, p_limit)
        + progress_delete(p_maintenance, p_now, p_limit) + audit_trim(p_now, p_limit)
        + policy_trim(p_now, p_limit);
    IF EXISTS (SELECT FROM credential_stale()) THEN
        PERFORM FROM queue FOR UPDATE SKIP LOCKED;
        IF FOUND THEN
            PERFORM credential_renew();
        END IF;
    END IF;
    IF (SELECT q.history FROM queue q) THEN
        PERFORM history_prepare(p_now);
    END IF;
    RETURN v_gone;
END $$;
