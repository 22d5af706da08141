-- Part of a fold: remember what somebody held (p_keys, with positions for channels) and be done with what was tried again (p_late).
-- What is held again waits twice as long, up to a second. A key that waits already is written again only when it says
-- something new, so what is held for long is not written at every fold. Returns the lowest live id.
CREATE OR REPLACE FUNCTION postpone (p_tick tick, p_late postponed[], p_keys TEXT[], p_lo_at BIGINT[], p_lo_id BIGINT[], p_now BIGINT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    v_from BIGINT := GREATEST(p_now, p_tick.postponed_to); -- later than everything that counts as done
    v_old BIGINT[] := ARRAY(SELECT l.id FROM unnest(p_late) l);
    v_replaced BIGINT[];
BEGIN
    WITH said AS MATERIALIZED (
        SELECT x.key, MIN(x.lo) AS lo, MAX(x.pause_ms) AS pause_ms
        FROM (
            SELECT h.key, CASE WHEN h.lo_at IS NOT NULL THEN ARRAY[h.lo_at, h.lo_id] END AS lo, NULL::INT AS pause_ms, TRUE AS is_held
            FROM unnest(p_keys, p_lo_at, p_lo_id) h (key, lo_at, lo_id)
            UNION ALL
            SELECT l.key, NULL, l.pause_ms, FALSE FROM unnest(p_late) l) x
        GROUP BY x.key HAVING BOOL_OR(x.is_held)),
    heard AS MATERIALIZED (
        SELECT s.key, s.lo, s.pause_ms AS late_ms, p.id, p.due_at, p.pause_ms
        FROM said s
        LEFT JOIN LATERAL (
            SELECT * FROM postponed p WHERE s.pause_ms IS NULL AND p.key = s.key AND p.id >= p_tick.postponed_id
            ORDER BY p.key DESC, p.id DESC LIMIT 1) p ON TRUE
        WHERE p.id IS NULL OR s.lo < ARRAY[p.lo_at, p.lo_id] OR s.lo IS NOT NULL AND p.lo_at IS NULL),
    kept AS (
        INSERT INTO postponed (key, lo_at, lo_id, due_at, pause_ms)
        SELECT h.key, h.lo[1], h.lo[2], COALESCE(h.due_at, v_from + LEAST(1000, COALESCE(h.late_ms * 2, 2))),
            COALESCE(h.pause_ms, LEAST(1000, COALESCE(h.late_ms * 2, 2)))
        FROM heard h)
    SELECT array_agg(h.id) INTO v_replaced FROM heard h WHERE h.id IS NOT NULL;
    v_old := v_old || v_replaced;
    DELETE FROM postponed WHERE id = ANY (v_old);
    RETURN COALESCE(
        (SELECT p.id FROM postponed p WHERE p.id >= p_tick.postponed_id ORDER BY p.id LIMIT 1),
        (SELECT MAX(o) + 1 FROM unnest(v_old) o),
        p_tick.postponed_id);
END $$;
