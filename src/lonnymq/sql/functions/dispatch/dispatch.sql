-- Move messages on to where consumers take them: read what was appended since the last dispatch, take back what
-- leases left, bring up what is due by now, and refill ready in fair order. Consumers call it before they dequeue, in
-- a transaction of its own: it holds the dispatch lock until that ends, which it must within a few seconds
-- (lock_guard). It commits asynchronously, unless messages ended in it. It waits for nobody: if another one
-- dispatches, or a row is held, it goes on without. Each call does a bounded piece of work. With p_quiet_ms it does
-- nothing, and says FALSE, if somebody dispatched less than so long ago. Returns TRUE when work was left, or may have
-- been: call again.
CREATE OR REPLACE FUNCTION dispatch (p_limit INT DEFAULT 1000, p_quiet_ms INT DEFAULT 0)
RETURNS BOOLEAN LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    v_now BIGINT;
    t tick;
    r RECORD;                               -- what was read
    l lane_state;
    v_mode TEXT;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM isolation_check('dispatch');
    END IF;
    IF p_limit IS NULL OR p_limit NOT BETWEEN 1 AND 100000 OR p_quiet_ms IS NULL OR p_quiet_ms < 0 THEN
        PERFORM refuse('LM005', format('a dispatch of %s notices after %s ms is not possible',
                COALESCE(p_limit::TEXT, 'NULL'), COALESCE(p_quiet_ms::TEXT, 'NULL')),
            'Read 1 to 100,000 at a time, after 0 ms or more.');
    END IF;
    SELECT q.has_bound, x AS tick INTO r
    FROM queue q LEFT JOIN LATERAL (SELECT * FROM tick ORDER BY id DESC LIMIT 1) x ON TRUE;
    IF r.has_bound THEN
        PERFORM unbound_check('dispatch');
    END IF;
    t := r.tick;
    v_now := clock_ms();
    IF v_now BETWEEN t.at AND t.at + p_quiet_ms - 1 THEN
        RETURN FALSE;
    ELSIF tick_is_foreign(t) THEN
        RETURN tick_renew();
    END IF;
    -- Before locking, so that an idle call writes nothing.
    IF NOT notice_is_new(t) THEN
        IF pg_current_xact_id_if_assigned() IS NULL AND transaction_is_open((SELECT d.xmax FROM dispatch_lock d)) THEN
            RETURN TRUE;                    -- somebody else dispatches
        END IF;
        PERFORM FROM notice_read(t, pg_current_snapshot(), 1);
        IF NOT FOUND AND NOT dispatch_is_due(t, v_now, 1000) THEN
            RETURN FALSE;
        END IF;
    END IF;
    PERFORM FROM dispatch_lock FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN TRUE;                        -- somebody else dispatches
    END IF;
    v_mode := set_config('synchronous_commit', 'off', TRUE); -- whatever depends on this commits later
    v_now := clock_ms();
    SELECT * INTO t FROM tick ORDER BY id DESC LIMIT 1; -- again: somebody may just have dispatched
    r := dispatch_read(t, v_now, p_limit);
    IF r.notices IS NULL AND NOT dispatch_is_due(t, v_now, 1000) THEN
        PERFORM lock_guard();
        RETURN FALSE;
    END IF;
    t := dispatch_work(t, r.told, r.notices, v_now, p_limit);
    -- Where so much arrives at once, nobody has to be notified.
    IF (r.told).n_newer >= 16 THEN
        PERFORM sleep_end();
    END IF;
    PERFORM lock_guard();
    IF (r.told).is_behind OR t.spans <> '{}' OR t.walk_id IS NOT NULL OR LEAST(t.due_to, t.alarm_to) < v_now
        OR t.swept_at < v_now AND lease_is_due(t, v_now, 1000)
    THEN
        RETURN TRUE;
    END IF;
    FOREACH l IN ARRAY t.lanes LOOP
        IF lane_is_low(l) THEN
            RETURN TRUE;
        END IF;
    END LOOP;
    IF (r.told).has_changes THEN            -- were there more than this call has read?
        RETURN EXISTS (SELECT FROM policy_change c WHERE c.xid >= t.policy_xid);
    END IF;
    RETURN FALSE;
END $$;
