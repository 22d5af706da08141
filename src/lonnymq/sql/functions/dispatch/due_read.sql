-- Part of dispatch: take what is due, where r says that something is: scheduled messages, alarms, and leases that ran
-- out. Returns the messages to place, how many of them came from leases, the channels to look at again, and how far
-- each table is read.
CREATE OR REPLACE FUNCTION due_read (
    n tick, r notice_summary, p_now BIGINT, p_limit INT, OUT entries entry[], OUT expired INT, OUT channels TEXT[],
    OUT due_to BIGINT, OUT alarm_to BIGINT, OUT swept_at BIGINT, OUT kept_to BIGINT)
LANGUAGE plpgsql AS $$
DECLARE
    x RECORD;
BEGIN
    due_to := GREATEST(n.due_to, p_now);
    alarm_to := p_now;                      -- new alarms are never set for an earlier time
    swept_at := GREATEST(n.swept_at, p_now);
    expired := 0;
    IF r.has_scheduled THEN
        SELECT k.entries, k.due_to INTO entries, due_to FROM entries_due(n.due_to, p_now, p_limit) k;
    END IF;
    IF r.has_alarms THEN
        SELECT * INTO x FROM alarms_read(n.alarm_to, p_now, p_limit);
        alarm_to := x.alarm_to;
        r.has_leases := r.has_leases OR x.lease_from IS NOT NULL;
        n.swept_at := LEAST(n.swept_at, x.lease_from);
        entries := entries || x.entries;
        channels := x.channels;
    END IF;
    IF r.has_leases THEN
        SELECT * INTO x FROM leases_sweep(n.swept_at, p_now, p_limit);
        swept_at := x.swept_at;
        kept_to := x.kept_to;
        expired := COALESCE(cardinality(x.entries), 0);
        entries := entries || x.entries;
        channels := channels || x.freed;
    END IF;
END $$;
