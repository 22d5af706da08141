-- Report how far the work on messages is that the caller holds: a fraction from 0 to 1, and a note. It belongs to the
-- running attempt, and replaces what that reported before. p_tokens has one token per message, or one token for all of
-- them. Locks no message, so it never delays the call that finishes one. With p_async_commit, a crash may undo it.
-- Returns how many messages the caller holds.
CREATE OR REPLACE FUNCTION progress_write (
    p_ids BIGINT[], p_tokens UUID[], p_fractions REAL[], p_notes TEXT[] DEFAULT NULL,
    p_async_commit BOOLEAN DEFAULT FALSE)
RETURNS BIGINT LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    v_now BIGINT := clock_ms();
    v_wrong REAL;
    v_count BIGINT;
    v_mode TEXT;
BEGIN
    p_tokens := tokens_fill(p_tokens, cardinality(p_ids));
    PERFORM array_lengths_check(cardinality(p_ids), COALESCE(cardinality(p_tokens), 0),
        COALESCE(cardinality(p_fractions), 0), cardinality(p_notes));
    SELECT u INTO v_wrong FROM unnest(p_fractions) u WHERE (u BETWEEN 0 AND 1) IS NOT TRUE LIMIT 1;
    IF FOUND THEN
        PERFORM refuse('LM010', format('a progress of %s is out of range', COALESCE(v_wrong::TEXT, 'NULL')),
            'Give a number from 0 to 1.');
    END IF;
    p_fractions := ARRAY(SELECT unnest(p_fractions)); -- whatever its dimensions and its lower bound
    p_notes := ARRAY(SELECT unnest(p_notes));
    WITH held AS MATERIALIZED (
        SELECT f.id, f.generation, f.ord FROM lease_find(p_ids, p_tokens) f
        CROSS JOIN LATERAL (SELECT FROM message m WHERE m.id = f.id AND m.generation = f.generation OFFSET 0) m),
    replaced AS (
        DELETE FROM progress p WHERE p.ctid = ANY (ARRAY(
            SELECT x.tid FROM held h
            CROSS JOIN LATERAL (
                SELECT p.ctid AS tid FROM progress p WHERE p.id = h.id ORDER BY p.id DESC, p.turn DESC LIMIT 1) x)))
    INSERT INTO progress (id, turn, generation, at, fraction, note)
    SELECT h.id, nextval('turn'), h.generation, v_now, p_fractions[h.ord], left(p_notes[h.ord], 1000) FROM held h;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF p_async_commit THEN
        v_mode := set_config('synchronous_commit', 'off', TRUE);
    END IF;
    RETURN v_count;
END $$;
