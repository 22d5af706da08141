-- Delete the alarms that are due and return what they ask to look at again: channels; leases (those that end after
-- lease_from); scheduled messages that were locked, and messages that a dequeue found locked, as entries. Also returns
-- up to which time alarms are read.
CREATE OR REPLACE FUNCTION alarms_read (
    p_alarm_to BIGINT, p_now BIGINT, p_limit INT,
    OUT channels TEXT[], OUT lease_from BIGINT, OUT entries entry[], OUT alarm_to BIGINT)
LANGUAGE plpgsql AS $$
DECLARE
    v_due alarm[];
    v_rows scheduled[];
BEGIN
    SELECT array_agg(a.a) INTO v_due
    FROM (SELECT a FROM alarm a WHERE a.at > p_alarm_to AND a.at <= p_now ORDER BY a.at, a.id LIMIT p_limit) a;
    alarm_to := CASE WHEN cardinality(v_due) = p_limit THEN (v_due[p_limit]).at - 1 ELSE p_now END;
    IF v_due IS NULL THEN
        RETURN;
    END IF;
    DELETE FROM alarm a USING unnest(v_due) d WHERE a.at = d.at AND a.id = d.id;
    SELECT array_agg(DISTINCT d.channel) FILTER (WHERE d.channel IS NOT NULL), MIN(d.lease_end_at) - 1
        INTO channels, lease_from
    FROM unnest(v_due) d;
    entries := entries_unlocked(ARRAY(SELECT d.back FROM unnest(v_due) d WHERE (d.back).id IS NOT NULL), p_now);
    SELECT array_agg(s.s) INTO v_rows FROM unnest(v_due) d
    CROSS JOIN LATERAL (SELECT s FROM scheduled s WHERE s.at = d.scheduled_at AND s.id = d.scheduled_id
            AND s.generation = d.scheduled_generation) s;
    IF v_rows IS NOT NULL THEN
        entries := entries || scheduled_take(v_rows, p_now);
    END IF;
END $$;
