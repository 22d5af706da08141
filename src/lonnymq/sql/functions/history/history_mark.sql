-- A number that identifies the past of this database, as far as a snapshot sees it. A reader stores it with its
-- position and compares it before it continues. It changes when rows that the reader has seen are no longer part of
-- this database, because a standby that lagged behind was promoted, or the database was replaced by a copy or a backup;
-- transaction ids are then used a second time. A restart, or a failover that lost nothing, does not change it.
-- Transactions do not commit in the order of their ids. So the mark of the history is made of the rows of the last
-- 1,000 transaction ids, as far as they belong to one day and are therefore dropped together; or of the last ones that
-- have 10,000 rows, so that large transactions do not make it slow. 0: the snapshot sees no row. NULL: the rows that
-- are needed are no longer kept. With p_dead, the mark is about the dead letters. A login that is bound to channels
-- gets the mark of the rows that it may see; no row of other channels is read.
CREATE OR REPLACE FUNCTION history_mark (p_snapshot TEXT, p_dead BOOLEAN DEFAULT FALSE)
RETURNS BIGINT LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path FROM CURRENT SET plan_cache_mode TO force_generic_plan SET enable_seqscan TO off
    SET enable_bitmapscan TO off SET jit TO off AS $$
DECLARE
    v_snapshot PG_SNAPSHOT;
    v_bound TEXT[] := bound_channels();
    v_history TEXT;                         -- what to read
    v_rows TEXT;
    v_end XID8;
    v_last XID8;
    v_first XID8;
    v_large XID8;                           -- the transaction of the 10,000th row, counted from the last one
    v_day BIGINT;
    v_mark BIGINT;
BEGIN
    BEGIN
        v_snapshot := p_snapshot;
    EXCEPTION WHEN invalid_text_representation THEN
        NULL;                               -- refused below
    END;
    IF v_snapshot IS NULL OR p_dead IS NULL THEN
        PERFORM refuse('LM010', 'the snapshot is not valid', 'Give a snapshot as history_bounds() shows it.');
    END IF;
    v_end := pg_snapshot_xmax(v_snapshot);
    IF (SELECT CASE WHEN p_dead THEN u.unmarked_xid ELSE u.trimmed_xid END
        FROM maintenance u)::TEXT::NUMERIC >= v_end::TEXT::NUMERIC - 1 THEN
        RETURN NULL;
    END IF;
    IF p_dead THEN
        IF v_bound IS NULL THEN
            SELECT d.mark INTO v_mark FROM dead_mark d
            WHERE d.xid < v_end AND pg_visible_in_snapshot(d.xid, v_snapshot)
                ORDER BY d.xid DESC, d.channel DESC LIMIT 1;
        ELSE
            SELECT d.mark INTO v_mark FROM unnest(v_bound) c (name)
            CROSS JOIN LATERAL (
                SELECT d.xid, d.channel, d.mark FROM dead_mark d
                WHERE d.channel = c.name AND d.xid < v_end AND pg_visible_in_snapshot(d.xid, v_snapshot)
                ORDER BY d.channel DESC, d.xid DESC LIMIT 1) d
            ORDER BY d.xid DESC, d.channel DESC LIMIT 1;
        END IF;
        RETURN COALESCE(v_mark, 0);
    END IF;
    -- For a login that is not bound it reads the table: the view cannot use the order of the index on xid.
    v_history := CASE WHEN v_bound IS NULL THEN 'finished' ELSE 'finished_visible()' END;
    EXECUTE format('SELECT f.xid FROM %s f WHERE f.xid < $1 AND pg_visible_in_snapshot(f.xid, $2)
        ORDER BY f.xid DESC LIMIT 1', v_history) INTO v_last USING v_end, v_snapshot;
    EXECUTE format('SELECT MAX(f.finished_at) / 86400000 FROM %s f WHERE f.xid = $1', v_history)
        INTO v_day USING v_last;
    v_first := (GREATEST(v_last::TEXT::NUMERIC - 1000, 0) + 1)::TEXT::XID8;
    v_rows := format('FROM %s f WHERE f.xid >= $1 AND f.xid <= $2 AND pg_visible_in_snapshot(f.xid, $3)
        AND f.finished_at >= $4 * 86400000 AND f.finished_at < ($4 + 1) * 86400000', v_history);
    EXECUTE format('SELECT f.xid %s ORDER BY f.xid DESC OFFSET 9999 LIMIT 1', v_rows)
        INTO v_large USING v_first, v_last, v_snapshot, v_day;
    EXECUTE format('SELECT BIT_XOR(hashtextextended(concat_ws('' '', f.xid, f.id, f.finished_at), 0))
        & 9223372036854775807 %s', v_rows)
        INTO v_mark USING COALESCE(v_large, v_first), v_last, v_snapshot, v_day;
    RETURN COALESCE(v_mark, 0);
END $$;
