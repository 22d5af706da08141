-- One message, whether it waits, is leased or is dead; no row when there is none, or none that the caller may see. For a login that is bound
-- to channels the id is looked for in these alone, so that the ids of others look like no ids, also to who counts the buffers that were read.
-- Its cost then grows with what waits in these channels.
CREATE OR REPLACE FUNCTION message_get (p_id BIGINT)
RETURNS TABLE (
    id BIGINT, channel TEXT, status TEXT, dequeue_at BIGINT, created_at BIGINT, first_dequeued_at BIGINT, dequeued_at BIGINT, lease_end_at BIGINT,
    dead_at BIGINT, attempts INT, max_attempts INT, consumer TEXT, error TEXT, past_errors JSONB, dedupe_key TEXT, is_cancelled BOOLEAN,
    headers JSONB, state BYTEA, content BYTEA)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path FROM CURRENT SET plan_cache_mode TO force_generic_plan SET enable_seqscan TO off SET enable_bitmapscan TO off
SET enable_tidscan TO on SET jit TO off AS $$
#variable_conflict use_column
DECLARE
    v_bound TEXT[] := bound_channels();
    v_message TID;
    v_dead TID;
BEGIN
    IF v_bound IS NULL THEN
        v_message := (SELECT m.ctid FROM message m WHERE m.id = p_id);
        v_dead := (SELECT d.ctid FROM dead d WHERE v_message IS NULL AND d.id = p_id);
    ELSE
        -- id + 0, and the channel compared together with the id: the planner must take the indexes that begin with the channel.
        SELECT x.tid INTO v_message
        FROM unnest(v_bound) c (name)
        CROSS JOIN LATERAL (
            SELECT m.ctid AS tid FROM message m WHERE NOT m.leased AND m.channel = c.name AND m.id + 0 = p_id
            UNION ALL
            SELECT m.ctid FROM message m WHERE m.leased::INT = 1 AND m.channel = c.name AND m.id + 0 = p_id) x;
        SELECT x.tid INTO v_dead
        FROM unnest(v_bound) c (name)
        CROSS JOIN LATERAL (
            SELECT d.ctid AS tid FROM dead d WHERE (d.channel, d.id) >= (c.name, p_id) AND (d.channel, d.id) <= (c.name, p_id) OFFSET 0) x
        WHERE v_message IS NULL;
    END IF;
    RETURN QUERY
    SELECT m.id, m.channel, message_status(m.leased, m.dequeue_at), m.dequeue_at, m.created_at, COALESCE(m.first_dequeued_at, m.dequeued_at),
        m.dequeued_at, m.lease_end_at, NULL::BIGINT, m.attempts, m.max_attempts, m.consumer, m.error, m.past_errors, m.dedupe_key, m.is_cancelled,
        m.headers, m.state, m.content
    FROM message m WHERE m.ctid = v_message
    UNION ALL
    SELECT d.id, d.channel, 'dead', d.dequeue_at, d.created_at, COALESCE(d.first_dequeued_at, d.dequeued_at),
        d.dequeued_at, NULL::BIGINT, d.dead_at, d.attempts, d.max_attempts, d.consumer, d.error, d.past_errors, d.dedupe_key, FALSE,
        d.headers, d.state, d.content
    FROM dead d WHERE d.ctid = v_dead;
END $$;
