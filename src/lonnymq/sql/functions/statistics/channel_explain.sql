-- Why a channel is not served now: one row per lane in which it has due messages, by name, or one row with lane NULL if
-- it has none. For a login that is bound to channels, the answer does not depend on other channels: the queue's
-- limit and its consumers are not reported, and every message that may be released waits for its turn. due: see
-- channel_lanes. leased counts all lanes: see channel_stats_of. reason, the first that applies:
--   empty, scheduled   nothing is due; until_at: when the next message is
--   paused, queue paused
--   concurrency        used of the allowed slots are taken, by messages that run or that are next in another lane
--   rate               until_at: when the rate allows the next message
--   queue limit        the whole queue runs as many messages (used) as are allowed
--   not dispatched     the dispatcher has not read the messages or a new policy, or has had work for five seconds
--   no consumer        the next message is due for five seconds, and in this time no consumer asked for the lane
--   next, turn         ahead: about how many messages of all channels are served before
-- since_at: since when its next message is due. The cost does not depend on how many messages wait. Locks nothing.
CREATE OR REPLACE FUNCTION channel_explain (p_channel TEXT)
RETURNS TABLE (
    lane TEXT, due BIGINT, leased BIGINT, reason TEXT, since_at BIGINT, until_at BIGINT, used BIGINT, allowed INT,
    ahead BIGINT)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    c_patience_ms CONSTANT BIGINT := 5000;  -- as lane_is_idle
    v_now BIGINT := clock_ms();
    v_is_bound BOOLEAN := bound_channels() IS NOT NULL;
    v_running BIGINT;                       -- how many messages of the queue are leased
    v_slots BIGINT;                         -- how many slots of the channel are in use
    v_token_at BIGINT;                      -- when its rate allows another message
    v_is_changed BOOLEAN;                   -- the dispatcher has not read its new policy
    v_is_late BOOLEAN;                      -- the dispatcher has had work for some time
    q queue;
    t tick;
    p RECORD;                               -- its limits
    s RECORD;                               -- its slots
    x RECORD;                               -- a lane
BEGIN
    PERFORM channel_check(p_channel);
    PERFORM observe_check(p_channel);
    SELECT * INTO q FROM queue;
    SELECT * INTO t FROM tick ORDER BY tick.id DESC LIMIT 1;
    SELECT * INTO p FROM channel_limits(p_channel);
    SELECT * INTO s FROM slots_live(p_channel);
    SELECT COALESCE(SUM(l.n), 0), COALESCE(SUM(l.n) FILTER (WHERE l.channel = p_channel), 0) INTO v_running, leased
    FROM leased_by_channel(10000) l;
    v_slots := leased;
    IF p.max_concurrency IS NOT NULL AND s.busy IS NOT NULL THEN
        leased := slots_leased(p_channel, s.busy);
        v_slots := cardinality(stubs_alive(s.busy));
    END IF;
    v_token_at := (GREATEST(1000 * v_now, s.full_at_us)
        - (p.burst - COALESCE(cardinality(s.out), 0) - 1) * p.interval_us + 999) / 1000;
    v_is_changed := EXISTS (
        SELECT FROM policy_change c WHERE c.xid >= t.policy_xid AND c.channel IN (p_channel, ''));
    v_is_late := NOT v_is_bound AND t.at < v_now - c_patience_ms
        AND (notice_is_new(t) OR dispatch_is_due(t, v_now, 10000));
    FOR x IN SELECT * FROM channel_lanes(p_channel, t, v_now) LOOP
        lane := x.name;
        due := x.due;
        since_at := x.since_at;
        reason := CASE
            WHEN p.paused THEN 'paused'
            WHEN q.paused THEN 'queue paused'
            WHEN x.entry_id IS NULL AND v_slots >= p.max_concurrency THEN 'concurrency'
            WHEN x.entry_id IS NULL AND v_token_at > v_now THEN 'rate'
            WHEN NOT v_is_bound AND v_running >= q.max_concurrency THEN 'queue limit'
            WHEN x.is_unread OR v_is_changed OR v_is_late THEN 'not dispatched'
            WHEN v_is_bound THEN 'turn'
            WHEN lane_is_idle(x.state, v_now) AND since_at <= v_now - c_patience_ms THEN 'no consumer' END;
        until_at := CASE WHEN reason = 'rate' THEN v_token_at END;
        used := CASE reason WHEN 'concurrency' THEN v_slots WHEN 'queue limit' THEN v_running END;
        allowed := CASE reason WHEN 'concurrency' THEN p.max_concurrency WHEN 'queue limit' THEN q.max_concurrency END;
        ahead := CASE WHEN reason IS NULL THEN lane_ahead(x.state, x.tag, x.entry_id) END;
        reason := COALESCE(reason, CASE WHEN ahead = 0 THEN 'next' ELSE 'turn' END);
        RETURN NEXT;
    END LOOP;
    IF NOT FOUND THEN
        due := 0;
        until_at := channel_scheduled_at(p_channel, t);
        reason := CASE                      -- of very many messages that are not dispatched, not all are read
            WHEN NOT v_is_bound AND (SELECT COUNT(*) FROM message_undispatched(10000)) = 10000 THEN 'not dispatched'
            WHEN until_at IS NOT NULL THEN 'scheduled' ELSE 'empty' END;
        RETURN NEXT;
    END IF;
END $$;
