-- Entries were moved back from ready: remove their slots from the lists of their channels and of the queue.
CREATE OR REPLACE FUNCTION slots_remove (p_back ready[])
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    WITH old AS MATERIALIZED (SELECT DISTINCT e.channel AS name FROM unnest(p_back) e UNION ALL SELECT '')
    UPDATE slots s                          -- COALESCE makes the planner use a hashed subplan
    SET turn = nextval('turn'), busy = ARRAY(
            SELECT b FROM unnest(s.busy) b
            WHERE COALESCE((b.id, b.generation) NOT IN (SELECT e.id, e.generation FROM unnest(p_back) e), TRUE)),
        out = CASE WHEN s.out = '{}' THEN s.out ELSE ARRAY(
            SELECT o FROM unnest(s.out) o
            WHERE COALESCE((o.id, o.generation) NOT IN (SELECT e.id, e.generation FROM unnest(p_back) e), TRUE)) END
    FROM old
    CROSS JOIN LATERAL slots_live(old.name) last
    WHERE s.ctid = last.tid;
END $$;
