-- Create messages from the chunks that the caller's login role has staged under a batch, in their order, and delete the
-- chunks. As staging_copy, which does it for single rows: the chunks are locked, and nothing is announced. Chunks that
-- are staged while this runs stay.
CREATE OR REPLACE FUNCTION staging_copy_chunks (p_batch UUID, p_xid XID8, OUT n BIGINT, OUT lo_id BIGINT,
    OUT hi_id BIGINT, OUT first_at BIGINT, OUT members BIGINT)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_now BIGINT := transaction_ms();
    v_max INT := (SELECT q.content_max_bytes FROM queue q);
    v_login REGROLE := quote_ident(session_user)::REGROLE;
    v_is_bound BOOLEAN := bound_channels() IS NOT NULL;
    v_sequence REGCLASS := pg_get_serial_sequence('message', 'id');
    -- The new ids are above the last one.
    v_lo BIGINT := COALESCE(pg_sequence_last_value('message_id_seq'), 0) + 1;
    v_count INT;                            -- of the rows of a chunk
    v_valid INT;
    v_tids TID[] := '{}';
    v_others TID[] := '{}';                 -- the first chunk with options, and all after it
    v_lanes TEXT[] := '{}';
    -- An array in a variable is read from its TOAST table once, and one in a record each time that it is used.
    v_channel TEXT[];
    v_content BYTEA[];
    c RECORD;
BEGIN
    n := 0;
    members := 0;
    FOR c IN
        SELECT x.ctid AS tid, x.* FROM staging_chunk x
        WHERE x.batch = p_batch AND x.staged_by = v_login ORDER BY x.ord FOR UPDATE
    LOOP
        v_channel := c.channel;
        v_count := cardinality(v_channel);
        IF num_nonnulls(VARIADIC c.dedupe_key) > 0 THEN
            PERFORM refuse('40001', 'rows of the batch were staged while it was published',
                'Run the transaction again.');
        END IF;
        IF v_is_bound THEN
            PERFORM produce_check(ARRAY(SELECT DISTINCT unnest(v_channel)));
        END IF;
        IF c.is_plain AND v_others = '{}' THEN
            v_content := c.content;
            PERFORM array_lengths_check(v_count, cardinality(v_content));
            -- Most messages are valid. What is wrong with others, and in which row, is looked up afterwards.
            INSERT INTO message (xid, dequeue_at, created_at, channel, content)
            SELECT p_xid, v_now, v_now, channel, content
            FROM (SELECT unnest(v_channel) AS channel, unnest(v_content) AS content) u
            WHERE name_is_valid(channel) AND octet_length(content) <= v_max;
            GET DIAGNOSTICS v_valid = ROW_COUNT;
            IF v_valid < v_count THEN
                EXECUTE format('SELECT FROM staging_chunk x CROSS JOIN LATERAL (%s) m
                    WHERE x.ctid = $1 AND message_check(m.message, $2, concat('' (the row with ord '', m.ord, '')''))',
                    staging_rows_query()) USING c.tid, v_max;
            END IF;
        ELSE                                -- later, all in one statement, which is planned once
            v_others := v_others || c.tid;
        END IF;
        n := n + v_count;
        first_at := LEAST(first_at, COALESCE((SELECT MIN(COALESCE(d, v_now)) FROM unnest(c.dequeue_at) d), v_now));
        members := members + COALESCE(num_nonnulls(VARIADIC c.batch_id), 0);
        v_lanes := ARRAY(SELECT unnest(v_lanes) UNION SELECT unnest(c.lane));
        v_tids := v_tids || c.tid;
    END LOOP;
    IF v_others <> '{}' THEN
        EXECUTE format('
            INSERT INTO message OVERRIDING SYSTEM VALUE
            SELECT r.*
            FROM (
                SELECT m.message, nextval($1) AS id
                FROM (SELECT x.* FROM staging_chunk x WHERE x.ctid = ANY ($2) ORDER BY x.ord) x
                CROSS JOIN LATERAL (%s) m
                WHERE message_check(m.message, $3, concat('' (the row with ord '', m.ord, '')''))) m
            CROSS JOIN LATERAL message_new(m.message, m.id, $4, $5, $5, FALSE) r', staging_rows_query())
        USING v_sequence, v_others, v_max, p_xid, v_now;
    END IF;
    DELETE FROM staging_chunk x WHERE x.ctid = ANY (v_tids);
    IF n > 0 THEN
        PERFORM lanes_check(v_lanes);
        lo_id := v_lo;
        hi_id := currval('message_id_seq');
    END IF;
END $$;
