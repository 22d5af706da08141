-- Take back the messages of leases that ran out: this uses up an attempt, and the message comes back or becomes a dead
-- letter; a cancelled one ends. Reads leases that end after p_from, bounded by messages and by bytes. It locks leases,
-- messages and the counts of batches with SKIP LOCKED; what somebody else has locked is looked at again a second later.
-- Returns the messages that came back, the channels that may have free slots, up to which end leases are swept, and the
-- latest end of those kept.
CREATE OR REPLACE FUNCTION leases_sweep (
    p_from BIGINT, p_now BIGINT, p_limit INT,
    OUT entries entry[], OUT freed TEXT[], OUT swept_at BIGINT, OUT kept_to BIGINT)
LANGUAGE plpgsql AS $$
DECLARE
    c_bytes CONSTANT BIGINT := 16777216;    -- how much content may be copied
    v_mine lease[];
    v_endings ending[];
    v_left BIGINT[];                        -- messages that do not fit into this call
BEGIN
    SELECT array_agg(x.l), CASE WHEN MAX(x.n) >= p_limit THEN MAX((x.l).end_at) - 1 ELSE GREATEST(p_from, p_now) END
    INTO v_mine, swept_at
    FROM (
        SELECT l.l, SUM(cardinality((l.l).stubs)) OVER (ORDER BY (l.l).end_at, (l.l).token, (l.l).last_id) AS n
        FROM (
            SELECT l FROM lease l WHERE l.end_at > p_from AND l.end_at <= p_now
            ORDER BY l.end_at LIMIT p_limit FOR UPDATE SKIP LOCKED) l) x
    WHERE x.n - cardinality((x.l).stubs) < p_limit;
    swept_at := COALESCE(swept_at, GREATEST(p_from, p_now));
    INSERT INTO alarm (at, lease_end_at)
    SELECT DISTINCT p_now + 1000, l.end_at FROM lease l
    WHERE l.end_at > p_from AND l.end_at <= swept_at
        AND COALESCE((l.token, l.last_id) NOT IN (SELECT m.token, m.last_id FROM unnest(v_mine) m), TRUE);
    IF v_mine IS NULL THEN
        RETURN;
    END IF;
    SELECT array_agg(ROW(x.ord, x.id, x.generation, x.token, x.last_id, x.dequeued_at, x.consumer, x.is_limited,
        x.channel,
            x.outcome, NULL, NULL, 'the lease ran out', NULL)::ending) FILTER (WHERE x.before < c_bytes),
        array_agg(x.id) FILTER (WHERE x.before >= c_bytes),
        array_agg(DISTINCT x.channel) FILTER (WHERE x.is_limited)
    INTO v_endings, v_left, freed
    FROM (
        SELECT y.*, SUM(CASE WHEN y.outcome IS NOT NULL THEN y.bytes
            ELSE 0 END) OVER (ORDER BY y.id) - y.bytes AS before
        FROM (
            SELECT l.ord, s.id, s.generation, l.token, l.last_id, l.dequeued_at, l.consumer, l.is_limited, m.channel,
                m.batch_id, m.bytes,
                CASE WHEN m.is_cancelled THEN 'cancelled' WHEN m.attempts + 1 >= m.max THEN 'dead' END AS outcome
            FROM unnest(v_mine) WITH ORDINALITY l (token, last_id, end_at, dequeued_at, is_limited, consumer, stubs,
                ord)
            CROSS JOIN unnest(l.stubs) s
            CROSS JOIN LATERAL (
                SELECT m.channel, m.batch_id, m.is_cancelled, m.attempts, pg_column_size(m.content) AS bytes,
                    COALESCE(m.max_attempts, (SELECT q.max_attempts FROM queue q)) AS max
                FROM message m WHERE m.id = s.id AND m.generation = s.generation FOR UPDATE OF m SKIP LOCKED) m) y
        WHERE y.outcome IS NULL OR y.batch_id IS NULL OR batch_lock_if_free(y.batch_id)) x;
    IF EXISTS (SELECT FROM unnest(v_endings) e WHERE e.outcome IS NOT NULL) THEN
        PERFORM message_finish(v_endings, p_now);
        -- A follower may read the history or the dead letters, and a crash must not undo what it has read.
        PERFORM set_config('synchronous_commit', 'on', TRUE);
    END IF;
    entries := entries_of(message_return(v_endings, FALSE));
    SELECT LEAST(leases_sweep.swept_at, k.swept_at), k.kept_to INTO swept_at, kept_to
        FROM leases_keep(v_mine, v_left, p_now) k;
END $$;
