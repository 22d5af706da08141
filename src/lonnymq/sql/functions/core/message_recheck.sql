-- Part of a dequeue: some of the messages that it took are not there, or somebody locks them, or has locked them at some time.
-- One that is gone, or has come back since, was cancelled or rescheduled. One that can be locked is served: whoever wants to
-- cancel it waits. One that cannot waits again. Returns what is served in all, and what of it is locked now.
CREATE OR REPLACE FUNCTION message_recheck (INOUT taken ready[], OUT locked stub[])
LANGUAGE plpgsql AS $$
DECLARE
    v_touched stub[];
    v_back stub[];
BEGIN
    SELECT array_agg(r), array_agg(ROW(r.id, r.generation)::stub) FILTER (WHERE m.is_touched) INTO taken, v_touched
    FROM unnest(taken) r
    CROSS JOIN LATERAL (
        SELECT m.xmax <> '0' AS is_touched FROM message m WHERE m.id = r.id AND m.generation = r.generation OFFSET 0) m;
    SELECT array_agg(s) INTO locked FROM unnest(v_touched) s
    CROSS JOIN LATERAL (
        SELECT m.id FROM message m WHERE m.id = s.id AND m.generation = s.generation FOR KEY SHARE SKIP LOCKED) m;
    SELECT array_agg(s) INTO v_back FROM unnest(v_touched) s WHERE s <> ALL (COALESCE(locked, '{}'));
    IF v_back IS NOT NULL THEN
        INSERT INTO notice (back) VALUES (v_back);
        SELECT array_agg(r) INTO taken FROM unnest(taken) r WHERE ROW(r.id, r.generation)::stub <> ALL (v_back);
    END IF;
END $$;
