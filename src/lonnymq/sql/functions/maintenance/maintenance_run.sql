-- Part of maintain, which has locked maintenance: delete dedupe keys that are free again, staged rows that were not
-- published for a day, jobs of the day before, and old partitions of the history; create new partitions; and update the
-- names of bound roles. Skips rows that are locked. Returns how many rows and partitions were removed.
CREATE OR REPLACE FUNCTION maintenance_run (p_maintenance maintenance, p_now BIGINT, p_limit INT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    v_from BIGINT := p_maintenance.dedupe_from;
    v_last BIGINT;
    v_count BIGINT;
    v_gone BIGINT;
    v_jobs BIGINT;
BEGIN
    -- A finisher may have committed late, behind the position of the last call, so once a day all keys are read.
    IF p_maintenance.dedupe_day <> p_now / 86400000 THEN
        v_from := -1;
    END IF;
    WITH old AS MATERIALIZED (
        SELECT d.ctid AS tid FROM dedupe d WHERE d.until_at > v_from AND d.until_at <= p_now
            ORDER BY d.until_at LIMIT p_limit FOR UPDATE SKIP LOCKED),
    gone AS (
        DELETE FROM dedupe d USING old WHERE d.ctid = old.tid RETURNING d.channel, d.key, d.turn, d.until_at),
    first AS (
        DELETE FROM dedupe d USING gone g WHERE d.channel = g.channel AND d.key = g.key AND d.turn = 0 AND g.turn > 0)
    SELECT COUNT(*), MAX(g.until_at) - 1 INTO v_count, v_last FROM gone g;
    UPDATE maintenance SET dedupe_from = CASE WHEN v_count = p_limit THEN v_last
        ELSE p_now END, dedupe_day = p_now / 86400000;
    DELETE FROM staging s WHERE s.ctid = ANY (ARRAY(
        SELECT x.ctid FROM staging x WHERE x.staged_at < p_now - 86400000 ORDER BY x.staged_at
            LIMIT p_limit FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_gone = ROW_COUNT;
    DELETE FROM ledger l WHERE l.ctid = ANY (ARRAY(
        SELECT x.ctid FROM ledger x WHERE NOT x.is_lasting AND x.published_at < p_now - 86400000
            LIMIT p_limit FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_jobs = ROW_COUNT;
    v_gone := v_gone + v_count + v_jobs + dead_unmark(p_now, p_limit) + history_trim(p_now, p_limit);
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
