-- message_complete_many for messages of one dequeue, if no results are given and no history is kept: one statement
-- deletes the messages without locking them first, in less than half the time of message_settle. The index scan for an
-- array sorts it, so the messages are locked in the order of their ids. Stubs are compared inside a COALESCE, which
-- makes the planner look them up in a hash table.
CREATE OR REPLACE FUNCTION message_complete_batch (p_ids BIGINT[], p_token UUID)
RETURNS TABLE (id BIGINT, result TEXT) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    d RECORD;                               -- what was deleted, and what is left to do
BEGIN
    WITH l AS MATERIALIZED (
        SELECT x.* FROM (SELECT MIN(u) AS lo, MAX(u) AS hi FROM unnest(p_ids) u) r
        CROSS JOIN LATERAL (
            SELECT x.last_id, x.is_limited, x.stubs FROM lease x
            WHERE x.token = p_token AND x.last_id >= r.lo AND (x.stubs[1]).id <= r.hi OFFSET 0) x),
    gone AS (
        DELETE FROM message m
        WHERE m.id = ANY (p_ids)
            AND COALESCE((m.id, m.generation) IN (SELECT s.id, s.generation FROM l CROSS JOIN unnest(l.stubs) s), FALSE)
        RETURNING m.id, m.channel, m.is_cancelled, m.is_counted, m.dedupe_key, m.unique_for_ms, m.attempts,
            m.keep_result_ms, m.batch_id)
    SELECT l.rows, l.is_limited, l.n = cardinality(g.ids) AS is_whole, g.* INTO d
    FROM (
        SELECT array_agg(l.last_id) AS rows, BOOL_OR(l.is_limited) AS is_limited, SUM(cardinality(l.stubs)) AS n
        FROM l) l
    CROSS JOIN (
        SELECT array_agg(g.id) AS ids, array_agg(g.id) FILTER (WHERE g.is_cancelled) AS cancelled,
            array_agg(g.channel) FILTER (WHERE (SELECT BOOL_OR(l.is_limited) FROM l)) AS channels,
            array_agg(g.channel) FILTER (WHERE g.is_counted) AS counted,
            array_agg(ROW(g.channel, g.dedupe_key, 0, g.id, NULL, NULL, NULL)::dedupe)
                FILTER (WHERE g.unique_for_ms IS NOT NULL) AS keys,
            array_agg(ROW(g.id, g.keep_result_ms, NULL, g.attempts + 1, CASE WHEN g.is_cancelled THEN 'cancelled'
                ELSE 'completed' END, g.channel, NULL, NULL, NULL)::result)
                FILTER (WHERE g.keep_result_ms IS NOT NULL) AS results,
            array_agg(ROW(g.batch_id, g.id,
                CASE WHEN g.is_cancelled THEN 'cancelled' ELSE 'completed' END)::batch_ending)
                FILTER (WHERE g.batch_id IS NOT NULL) AS members
        FROM gone g) g;
    IF d.members IS NOT NULL THEN
        PERFORM batch_count_endings(d.members, clock_ms());
    END IF;
    IF d.is_whole THEN
        DELETE FROM lease x WHERE x.token = p_token AND x.last_id = ANY (d.rows);
    ELSIF d.ids IS NOT NULL THEN
        DELETE FROM lease x
        WHERE x.token = p_token AND x.last_id = ANY (d.rows) AND x.last_id = ANY (d.ids) AND NOT EXISTS (
            SELECT FROM unnest(x.stubs) s
            CROSS JOIN LATERAL (
                SELECT FROM message m WHERE m.id = s.id AND m.generation = s.generation OFFSET 0) m);
    END IF;
    IF d.counted IS NOT NULL THEN
        INSERT INTO departure (channel, n) SELECT c, COUNT(*) FROM unnest(d.counted) c GROUP BY c;
    END IF;
    IF d.keys IS NOT NULL THEN
        PERFORM dedupe_release(d.keys);
    END IF;
    IF d.channels IS NOT NULL THEN
        PERFORM slots_notify(ARRAY(SELECT DISTINCT c FROM unnest(d.channels) c));
    END IF;
    IF d.results IS NOT NULL THEN
        PERFORM result_write(d.results, clock_ms());
    END IF;
    IF cardinality(d.ids) = cardinality(p_ids) AND d.cancelled IS NULL THEN
        RETURN QUERY SELECT unnest(p_ids), 'completed';
    ELSE
        RETURN QUERY
        SELECT r.id, r.result
        FROM message_results(p_ids, tokens_fill(ARRAY[p_token], cardinality(p_ids)), ARRAY(
            SELECT ROW(NULL, i, NULL, p_token, NULL, NULL, NULL, NULL, NULL,
                CASE WHEN i = ANY (d.cancelled) THEN 'cancelled' ELSE 'completed' END, NULL, NULL, NULL, NULL)::ending
            FROM unnest(d.ids) i)) r;
    END IF;
END $$;
