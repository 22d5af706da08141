-- Record the policy of a channel, or that it has none any more; '' records the queue's own and what channels inherit.
-- Writes nothing if the policy is the one that was recorded last. A channel without rows has no policy of its own, so
-- the row of a deletion counts as superseded at once, and is trimmed together with the row before it. The caller has
-- locked the policy, so the rows of a channel are written one after the other.
CREATE OR REPLACE FUNCTION policy_log_write (p_channel TEXT)
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_now BIGINT := clock_ms();
    p policy_log;                           -- the policy now
    o policy_log;                           -- what was recorded last
BEGIN
    FOR p IN
        SELECT NULL::BIGINT, NULL::XID8, NULL::BIGINT, NULL::BIGINT, n.*
        FROM (
            SELECT 'queue', '', q.max_concurrency, NULL::BIGINT, NULL::INT, q.paused, NULL::INT, NULL::NUMERIC, FALSE
            FROM queue q WHERE p_channel = ''
            UNION ALL
            SELECT 'default', '', q.channel_max_concurrency, q.channel_release_interval_us, q.channel_burst, NULL,
                q.channel_max_size, NULL, FALSE
            FROM queue q WHERE p_channel = ''
            UNION ALL
            SELECT 'channel', p_channel, c.max_concurrency, c.release_interval_us, c.burst, COALESCE(c.paused, FALSE),
                c.max_size, COALESCE(c.weight, 1), c.name IS NULL
            FROM (SELECT) x LEFT JOIN LATERAL (SELECT * FROM channel c WHERE c.name = p_channel OFFSET 0) c ON TRUE
            WHERE p_channel <> '') n
    LOOP
        SELECT * INTO o FROM policy_log l
        WHERE l.scope = p.scope AND l.channel = p.channel AND l.superseded_at IS NULL;
        p.id := o.id;
        p.xid := o.xid;
        p.at := o.at;
        CONTINUE WHEN p IS NOT DISTINCT FROM o OR p.is_deleted AND o.id IS NULL;
        UPDATE policy_log l SET superseded_at = v_now WHERE l.id = o.id;
        INSERT INTO policy_log (at, superseded_at, scope, channel, max_concurrency, release_interval_us, burst, paused,
            max_size, weight, is_deleted)
        VALUES (v_now, CASE WHEN p.is_deleted THEN v_now END, p.scope, p.channel, p.max_concurrency,
            p.release_interval_us, p.burst, p.paused, p.max_size, p.weight, p.is_deleted);
    END LOOP;
END $$;
