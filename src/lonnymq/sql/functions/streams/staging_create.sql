-- Create messages from the rows that the caller's login role has staged under some batches, in the order of the batches
-- and their rows, and delete the rows. A full channel is an error (LM017), unless p_drop_full: then its rows are
-- deleted too, and counted as refused. With dedupe keys, or if channels have a max_size, all messages are created in
-- one call of messages_create, so that their locks are taken in order. Without them staging_copy and
-- staging_copy_chunks copy each batch, and one notice announces all messages.
CREATE OR REPLACE FUNCTION staging_create (p_batches UUID[], p_drop_full BOOLEAN, OUT created BIGINT,
    OUT duplicates BIGINT, OUT refused BIGINT)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    -- before it looks for a limit, so that whoever sets one can tell which transactions may have missed it
    v_xid XID8 := pg_current_xact_id();
    v_login REGROLE := quote_ident(session_user)::REGROLE;
    v_messages new_message[];
    v_batch UUID;
    v_lo BIGINT;                            -- the new ids are between these two; others may be there, too
    v_hi BIGINT;
    v_first_at BIGINT;
    v_members BIGINT := 0;                  -- how many belong to batches
    v_batch_ids BIGINT[];
    s RECORD;
BEGIN
    IF (SELECT q.has_sizes FROM queue q) OR EXISTS (
        SELECT FROM unnest(p_batches) b (batch)
        CROSS JOIN LATERAL (
            SELECT FROM staging x WHERE x.batch = b.batch AND x.staged_by = v_login
                AND x.dedupe_key IS NOT NULL LIMIT 1) x)
        OR EXISTS (
            SELECT FROM staging_chunk x
            WHERE x.batch = ANY (p_batches) AND x.staged_by = v_login AND num_nonnulls(VARIADIC x.dedupe_key) > 0)
    THEN
        v_messages := staging_take_all(p_batches);
        PERFORM lanes_check(ARRAY(SELECT m.lane FROM unnest(v_messages) m));
        SELECT COUNT(*) FILTER (WHERE m.result = 'created'), COUNT(*) FILTER (WHERE m.result = 'duplicate'),
            COUNT(*) FILTER (WHERE m.result = 'full')
        INTO created, duplicates, refused FROM messages_create(v_messages, NOT p_drop_full) m;
        RETURN;
    END IF;
    created := 0;
    duplicates := 0;
    refused := 0;
    FOREACH v_batch IN ARRAY p_batches LOOP
        FOR s IN SELECT * FROM staging_copy(v_batch, v_xid) UNION ALL SELECT * FROM staging_copy_chunks(v_batch, v_xid)
        LOOP
            created := created + s.n;
            v_lo := LEAST(v_lo, s.lo_id);
            v_hi := GREATEST(v_hi, s.hi_id);
            v_first_at := LEAST(v_first_at, s.first_at);
            v_members := v_members + s.members;
        END LOOP;
    END LOOP;
    IF created > 0 THEN
        INSERT INTO notice (xid, lo_id, hi_id, n) VALUES (v_xid, v_lo, v_hi, created);
        IF v_members > 0 THEN
            WITH joined AS (
                INSERT INTO batch_part (batch_id, n, lo_id, hi_id)
                SELECT m.batch_id, COUNT(*), MIN(m.id), MAX(m.id) FROM message m
                WHERE m.id BETWEEN v_lo AND v_hi AND m.xid = v_xid AND m.batch_id IS NOT NULL
                GROUP BY m.batch_id
                RETURNING batch_part.batch_id)
            SELECT array_agg(j.batch_id) INTO v_batch_ids FROM joined j;
            PERFORM batch_join(v_batch_ids);
        END IF;
        PERFORM sleep_notify(v_first_at);
    END IF;
END $$;
