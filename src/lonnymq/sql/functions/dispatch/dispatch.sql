-- The dispatcher. It reads the notices that were appended since the last dispatch, returns messages whose leases ran
-- out, picks up scheduled messages that are due, and refills ready in fair order. Consumers call it before they
-- dequeue.
--
-- In calling order:
--   tick_is_unusable, dispatch_recover   after a restore: start over with a new tick
--   notice_is_new, dispatch_is_due       without a lock: is there anything to do?
--   dispatch_read                        one statement: the new notices, a summary of them, and what is due
--   dispatch_work                        do it, and write the new tick:
--     tick_next                            counts and served totals
--     entries_created, entries_returned,   the messages to place: new ones, those that came back, those that a
--     entries_rescan                       restore left in no place
--     due_read                             and those that are due: entries_due, alarms_read, leases_sweep
--     lanes_dispatch                       apply changed policies and limits, then for each lane:
--       lane_dispatch                        lane_measure, backlog_reopen,
--         lane_place                           put each message into ready or into its line,
--         lane_refill                          and move messages from the lines to ready
--     tick_open_transactions, tick_write   remember what is read
--
-- Call it in its own transaction: the dispatch lock is held until that transaction ends, at most five seconds later
-- (lock_guard). It never waits for a row: if another session dispatches, it returns at once; rows that are locked are
-- skipped and looked at again later. It commits asynchronously, unless messages died or were cancelled in it. Each call
-- does a bounded amount of work. If the last dispatch was less than p_quiet_ms ago, it does nothing and returns FALSE.
-- Returns TRUE if there is, or may be, more work: call again.
CREATE OR REPLACE FUNCTION dispatch (p_limit INT DEFAULT 1000, p_quiet_ms INT DEFAULT 0)
RETURNS BOOLEAN LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    v_now BIGINT;
    t tick;
    r RECORD;                               -- what dispatch_read returned
    l lane_state;
    v_mode TEXT;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM isolation_check('dispatch');
    END IF;
    IF p_limit IS NULL OR p_limit NOT BETWEEN 1 AND 100000 OR p_quiet_ms IS NULL OR p_quiet_ms < 0 THEN
        PERFORM refuse('LM005', format('p_limit %s or p_quiet_ms %s is out of range',
                COALESCE(p_limit::TEXT, 'NULL'), COALESCE(p_quiet_ms::TEXT, 'NULL')),
            'Give p_limit from 1 to 100,000, and p_quiet_ms of 0 or more.');
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
    ELSIF tick_is_unusable(t) THEN
        RETURN dispatch_recover();
    END IF;
    -- Checked before locking, so that an idle call writes nothing.
    IF NOT notice_is_new(t) THEN
        IF pg_current_xact_id_if_assigned() IS NULL AND transaction_is_open((SELECT d.xmax FROM dispatch_lock d)) THEN
            RETURN TRUE;                    -- another session dispatches
        END IF;
        PERFORM FROM notice_read(t, pg_current_snapshot(), 1);
        IF NOT FOUND AND NOT dispatch_is_due(t, v_now, 1000) THEN
            RETURN FALSE;
        END IF;
    END IF;
    PERFORM FROM dispatch_lock FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN TRUE;                        -- another session dispatches
    END IF;
    v_mode := set_config('synchronous_commit', 'off', TRUE); -- what depends on it commits later
    v_now := clock_ms();
    SELECT * INTO t FROM tick ORDER BY id DESC LIMIT 1; -- again, now with the lock
    r := dispatch_read(t, v_now, p_limit);
    IF r.notices IS NULL AND NOT dispatch_is_due(t, v_now, 1000) THEN
        PERFORM lock_guard();
        RETURN FALSE;
    END IF;
    t := dispatch_work(t, r.summary, r.notices, v_now, p_limit);
    -- At this rate consumers find messages without being notified.
    IF (r.summary).n_newer >= 16 THEN
        PERFORM sleep_end();
    END IF;
    PERFORM lock_guard();
    IF (r.summary).is_behind OR t.spans <> '{}' OR t.rescan_id IS NOT NULL OR LEAST(t.due_to, t.alarm_to) < v_now
        OR t.swept_at < v_now AND lease_is_due(t, v_now, 1000)
    THEN
        RETURN TRUE;
    END IF;
    FOREACH l IN ARRAY t.lanes LOOP
        IF lane_is_low(l) THEN
            RETURN TRUE;
        END IF;
    END LOOP;
    IF (r.summary).has_changes THEN         -- there may be more than this call has read
        RETURN EXISTS (SELECT FROM policy_change c WHERE c.xid >= t.policy_xid);
    END IF;
    RETURN FALSE;
END $$;
