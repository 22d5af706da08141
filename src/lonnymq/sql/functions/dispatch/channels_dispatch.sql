-- Make ready the next messages of certain channels, wherever they are in the order, for a dequeue or a claim that takes
-- from these channels only. Call it after dispatch, in its own transaction: it needs the dispatch lock, too.
-- The messages get the tags that they would get in their turn, so nobody else's order changes: an entry above the
-- lane's horizon is served to other consumers only when its turn comes. Among these channels, the order is that of
-- their tags. Their limits apply. p_channels, p_pattern: see claim_channels; p_limit: how many are wanted.
-- Returns TRUE if another call may find more. Writes nothing if nothing can be made ready.
CREATE OR REPLACE FUNCTION channels_dispatch (
    p_channels TEXT[], p_pattern TEXT DEFAULT NULL, p_lanes TEXT[] DEFAULT NULL, p_limit INT DEFAULT 1000)
RETURNS BOOLEAN LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    v_now BIGINT := clock_ms();
    v_channels TEXT[];
    s RECORD;                               -- the queue's settings
    n tick;
    x RECORD;
    v_put INT := 0;
    v_mode TEXT;
BEGIN
    PERFORM isolation_check('channels_dispatch');
    PERFORM unbound_check('channels_dispatch');
    IF p_limit IS NULL OR p_limit NOT BETWEEN 1 AND 100000 THEN
        PERFORM refuse('LM005', format('p_limit is %s, which is out of range', COALESCE(p_limit::TEXT, 'NULL')),
            'Ask for 1 to 100,000 messages.');
    END IF;
    v_channels := claim_channels(p_channels, p_pattern, p_lanes);
    IF v_channels IS NULL THEN
        PERFORM refuse('LM010', 'neither p_channels nor p_pattern is given', 'Give one of them, or call dispatch.');
    END IF;
    SELECT * INTO n FROM tick ORDER BY id DESC LIMIT 1;
    SELECT q.max_concurrency, COALESCE(q.channel_max_concurrency, q.channel_release_interval_us) IS NOT NULL
        OR EXISTS (SELECT FROM channel) AS has_policies INTO s FROM queue q;
    -- Checked before locking, so that an idle call writes nothing.
    IF v_channels = '{}' OR tick_is_unusable(n) OR NOT EXISTS (
        SELECT FROM unnest(n.lanes) l
        WHERE (p_lanes IS NULL OR l.name = ANY (p_lanes))
            AND channels_are_low(l, v_channels, p_limit, s.max_concurrency, v_now))
    THEN
        RETURN FALSE;
    END IF;
    PERFORM FROM dispatch_lock FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN TRUE;                        -- another session dispatches
    END IF;
    v_mode := set_config('synchronous_commit', 'off', TRUE); -- what depends on it commits later
    SELECT * INTO n FROM tick ORDER BY id DESC LIMIT 1; -- again, now with the lock
    -- Leave out channels whose policy has changed since the last dispatch.
    IF EXISTS (SELECT FROM policy_change c WHERE c.xid >= n.policy_xid) THEN
        v_channels := ARRAY(
            SELECT unnest(v_channels) EXCEPT SELECT c.channel FROM policy_change c WHERE c.xid >= n.policy_xid);
        IF EXISTS (SELECT FROM policy_change c WHERE c.xid >= n.policy_xid AND c.channel = '') THEN
            v_channels := '{}';
        END IF;
    END IF;
    FOR i IN 1 .. cardinality(n.lanes) LOOP
        CONTINUE WHEN (n.lanes[i]).name <> ALL (p_lanes) OR v_channels = '{}';
        x := lane_fetch(n.lanes[i], v_channels, p_limit, s.max_concurrency, s.has_policies, v_now);
        n.lanes[i] := x.lane;
        v_put := v_put + x.put;
    END LOOP;
    PERFORM tick_write(n);
    PERFORM lock_guard();
    RETURN v_put > 0 AND EXISTS (
        SELECT FROM unnest(n.lanes) l
        WHERE (p_lanes IS NULL OR l.name = ANY (p_lanes))
            AND channels_are_low(l, v_channels, p_limit, s.max_concurrency, v_now));
END $$;
