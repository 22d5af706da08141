-- Part of a dequeue: entries that it took and whose messages somebody locks, or has locked at some time. A message that can be
-- locked is served: whoever wants to cancel it waits. One that cannot waits again, and is no part of the lease. One that is
-- gone was cancelled. Returns those to be served.
CREATE OR REPLACE FUNCTION message_recheck (p_taken ready[], p_token UUID)
RETURNS stub[] LANGUAGE plpgsql AS $$
DECLARE
    v_touched stub[];
    v_mine stub[];
    v_back stub[];
BEGIN
    SELECT array_agg(ROW(r.id, r.generation)::stub) INTO v_touched FROM unnest(p_taken) r
    CROSS JOIN LATERAL (
        SELECT FROM message m WHERE m.id = r.id AND m.generation = r.generation AND m.xmax <> '0' OFFSET 0) m;
    SELECT array_agg(s) INTO v_mine FROM unnest(v_touched) s
    CROSS JOIN LATERAL (
        SELECT m.id FROM message m WHERE m.id = s.id AND m.generation = s.generation FOR KEY SHARE SKIP LOCKED) m;
    SELECT array_agg(s) INTO v_back FROM unnest(v_touched) s WHERE s <> ALL (COALESCE(v_mine, '{}'));
    IF v_back IS NOT NULL THEN
        INSERT INTO notice (n, back) VALUES (cardinality(v_back), v_back);
        UPDATE lease l SET stubs = ARRAY(SELECT s FROM unnest(l.stubs) s WHERE s <> ALL (v_back) ORDER BY s.id)
        WHERE l.token = p_token;
    END IF;
    RETURN v_mine;
END $$;
