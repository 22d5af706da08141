-- Entries were taken back from ready: where there are limits, they are not busy any more.
CREATE OR REPLACE FUNCTION slots_leave (p_back ready[])
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    WITH old AS MATERIALIZED (
        SELECT n.name, array_agg(ROW(e.id, e.generation)::stub) AS stubs
        FROM unnest(p_back) e CROSS JOIN LATERAL (VALUES (e.channel), ('')) n (name)
        GROUP BY n.name)
    UPDATE slots s
    SET turn = nextval('turn'), busy = ARRAY(SELECT b FROM unnest(s.busy) b WHERE b <> ALL (old.stubs)),
        out = CASE WHEN s.out = ANY (old.stubs) THEN NULL ELSE s.out END
    FROM old
    CROSS JOIN LATERAL (
        SELECT s.ctid AS tid FROM slots s WHERE s.channel = old.name ORDER BY s.channel DESC, s.turn DESC LIMIT 1) last
    WHERE s.ctid = last.tid;
END $$;
