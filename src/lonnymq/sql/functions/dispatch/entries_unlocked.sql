-- Messages that a dequeue set aside, for example because an open cancel had locked them: returns those that are not
-- locked now. The others get an alarm one second later, or later still if there are many.
CREATE OR REPLACE FUNCTION entries_unlocked (p_stubs stub[], p_now BIGINT)
RETURNS entry[] LANGUAGE plpgsql AS $$
DECLARE
    v_locked stub[];
BEGIN
    IF p_stubs = '{}' THEN
        RETURN NULL;
    END IF;
    WITH found AS MATERIALIZED (
        SELECT s AS stub, m.xmax FROM unnest(p_stubs) s
        CROSS JOIN LATERAL (
            SELECT m.xmax FROM message m WHERE m.id = s.id AND m.generation = s.generation OFFSET 0) m
        WHERE m.xmax <> '0'),
    open AS MATERIALIZED (
        SELECT o.xmax FROM (SELECT DISTINCT f.xmax FROM found f) o WHERE transaction_is_open(o.xmax))
    SELECT array_agg(f.stub) INTO v_locked FROM found f JOIN open o ON o.xmax = f.xmax;
    IF v_locked IS NULL THEN
        RETURN entries_of(p_stubs);
    END IF;
    INSERT INTO alarm (at, back) SELECT p_now + GREATEST(1000, 5 * cardinality(v_locked)), s FROM unnest(v_locked) s;
    RETURN entries_of(ARRAY(
        SELECT s FROM unnest(p_stubs) s
        WHERE COALESCE((s.id, s.generation) NOT IN (SELECT k.id, k.generation FROM unnest(v_locked) k), TRUE)));
END $$;
